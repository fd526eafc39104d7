//! Operations at boundaries. The sizes of objects are those at which the layout of a slab changes.
//! Slabs are full or empty, or one object away from full or empty. The number of free objects is at
//! the limit, or one above or below the limit. The main thread and other threads perform the
//! operations. The other threads exit while some of their objects are live.
#![allow(unsafe_code, clippy::unwrap_used)]

use fastrand::Rng;
use slab::{Arena, Layout, Options, Shape, Tunables};
use std::sync::Arc;
use testkit::seed;
use testkit::subject::Subject;

/// The maximum number of objects that a subject has. The total size of these objects is at most
/// `BYTES_MAX` bytes plus the size of two objects.
const OBJECTS_MAX: usize = 20_000;
const BYTES_MAX: usize = 4 << 20;

/// Returns the sizes at which a difference of one byte changes the slab.
fn edges(layout: Layout) -> Vec<usize> {
    let max = 16 * page::page_size();
    let kind = |size: usize| {
        let Shape { objects, pages, on_slab, width, .. } = Shape::new(layout, size, 1).ok()?;
        Some((objects.div_ceil(64), objects <= 3, pages, on_slab, width))
    };
    let mut edges: Vec<usize> = (2..max).filter(|&size| kind(size - 1) != kind(size)).collect();
    edges.extend([1, max - 1, max]);
    edges
}

/// Returns `edge`, `edge` + 1 or `edge` - 1.
fn beside(edge: usize, random: &mut Rng) -> usize {
    (edge + random.usize(..3)).saturating_sub(1)
}

/// Returns tunables that let a thread keep one or two slabs. Sometimes the limit is 0.
fn tunables(objects: usize, random: &mut Rng) -> Tunables {
    let limit = beside(objects * random.usize(..3), random) as u32;
    let batchcount = [1, limit.div_ceil(2), limit][random.usize(..3)].min(limit);
    Tunables { limit, batchcount }
}

/// Allocates or frees until `target` objects are live. Frees the oldest objects first, the newest
/// first, or in random order.
fn go_to(subject: &mut Subject, target: usize, random: &mut Rng) {
    let order = random.u8(..3);
    while subject.live.len() < target {
        subject.alloc(random.u8(..), random.u8(..8) == 0).unwrap();
    }
    while subject.live.len() > target {
        let last = subject.live.len() - 1;
        subject.free([0, last, random.usize(..=last)][usize::from(order)]);
    }
}

/// Changes the number of live objects to a boundary, or to one more or less. A boundary is a number
/// of whole slabs, or differs from the current number by the limit of kept objects.
fn step(subject: &mut Subject, limit: u32, random: &mut Rng) {
    let (objects, live) = (subject.cache.shape().objects, subject.live.len());
    let edge = match random.u8(..5) {
        0 => 0,
        1 => live.saturating_sub(limit as usize),
        2 => live + limit as usize,
        _ => random.usize(..5) * objects,
    };
    let most = OBJECTS_MAX.min(BYTES_MAX / subject.size + 2);
    let target = beside(edge, random).min(most);
    match random.u8(..4) {
        // The thread exits after remote frees, while some objects that it allocated are live.
        0 => std::thread::scope(|scope| {
            let mut random = random.fork();
            scope.spawn(move || go_to(subject, target, &mut random)).join().unwrap();
        }),
        1 => {
            subject.cache.shrink();
            go_to(subject, target, random);
        }
        _ => go_to(subject, target, random),
    }
}

fn run(arena: &Arc<Arena>, layout: Layout, size: usize, random: &mut Rng) {
    let align = 1 << random.u32(..5);
    let Ok(shape) = Shape::new(layout, size, align) else { return };
    let tunables = tunables(shape.objects, random);
    let reserve = if random.bool() { 0 } else { beside(shape.objects, random) };
    let options = Options { layout, reserve, tunables: Some(tunables), ..Options::default() };
    let told = format!("{size} bytes at {align}, {options:?}");
    let mut subject = Subject::new(arena, size, align, options).expect(&told);
    for _ in 0..25 {
        step(&mut subject, tunables.limit, random);
        subject.cache.check();
        // This thread might not have collected the remotely freed objects of its slabs yet, so the
        // counter may be higher.
        assert!(subject.cache.stat().active_objects >= subject.live.len(), "{told}");
        if random.u8(..4) == 0 {
            subject.cache.shrink();
            subject.check();
        }
        arena.check();
    }
    go_to(&mut subject, 1, random);
    go_to(&mut subject, 0, random);
    subject.cache.shrink();
    subject.check();
    let refused = subject.cache.stat().refused;
    assert!(refused > 0, "second frees are refused, and counted: {told}");
    assert!(subject.cache.stat().slabs <= reserve.div_ceil(shape.objects), "{told}");
    subject.cache.destroy().unwrap();
    assert_eq!(arena.budget().used(), 0, "{told}");
}

#[test]
fn random_operations_at_the_edges() {
    for (own, layout) in Layout::ALL.into_iter().enumerate() {
        let mut random = Rng::with_seed(seed(own as u64 + 10));
        let arena = Arena::new(page::Config::default()).unwrap();
        let edges = edges(layout);
        let rounds = if std::env::var_os("UZRAM_LONG").is_some() { 2000 } else { 40 };
        for _ in 0..rounds {
            let size = beside(edges[random.usize(..edges.len())], &mut random);
            run(&arena, layout, size, &mut random);
        }
        arena.check();
    }
}
