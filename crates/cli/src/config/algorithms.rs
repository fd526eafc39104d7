//! `NAME(PARAMETERS) NAME ...`: the disk's algorithm, and the algorithms of recompression.

/// The options of the command line that choose the disk's algorithm. The file does not override
/// these options.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Given {
    /// True if the command line sets an algorithm. The file's parameters are then ignored, because
    /// they belong to another algorithm.
    pub(super) algorithm: bool,
    pub(super) level: Option<i32>,
}

/// Returns the options for a list of algorithms. The first algorithm is the disk's. The others are
/// for recompression, with priorities from 1.
pub(super) fn algorithms(value: &str, given: &Given) -> Result<Vec<String>, String> {
    let mut options = Vec::new();
    for (priority, word) in words(value)?.into_iter().enumerate() {
        let (name, params) = match word.split_once('(') {
            Some((name, params)) => (name, params.trim_end_matches(')').replace(',', " ")),
            None => (word.as_str(), String::new()),
        };
        let params: Vec<&str> = params.split_whitespace().collect();
        match (priority, name) {
            (_, "") => {
                return Err(
                    "parameters of recompression itself are none of the disk's; give them \
                            to 'uzram recompress'"
                        .to_owned(),
                );
            }
            (0, name) => {
                options.push(format!("--algorithm={name}"));
                options.extend(of_disk(&params, given));
            }
            (_, name) => {
                options.push(format!("--set=recomp_algorithm=algo={name} priority={priority}"));
                if !params.is_empty() {
                    let params = params.join(" ");
                    options.push(format!("--set=algorithm_params=priority={priority} {params}"));
                }
            }
        }
    }
    match options.is_empty() {
        true => Err("expected the name of an algorithm".to_owned()),
        false => Ok(options),
    }
}

/// Returns the option for the parameters of the disk's algorithm. If the level is the only
/// parameter, returns `--level`, which the command line can override. Otherwise a single option
/// must set all parameters.
fn of_disk(params: &[&str], given: &Given) -> Option<String> {
    if given.algorithm {
        return None;
    }
    let (levels, mut others): (Vec<&str>, Vec<&str>) =
        params.iter().partition(|param| param.starts_with("level="));
    let level = levels.last().map(|level| level.trim_start_matches("level=").to_owned());
    if others.is_empty() {
        return level.map(|level| format!("--level={level}"));
    }
    let level = given.level.map(|level| level.to_string()).or(level);
    let level = level.map(|level| format!("level={level}"));
    others.splice(0..0, level.as_deref());
    Some(format!("--set=algorithm_params=priority=0 {}", others.join(" ")))
}

/// Splits a text at spaces outside brackets.
fn words(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut is_inside) = (Vec::new(), String::new(), false);
    for c in text.chars() {
        match c {
            '(' if is_inside => return Err("one bracket lies in another".to_owned()),
            '(' => is_inside = true,
            ')' if !is_inside => return Err("a bracket is closed that was not opened".to_owned()),
            ')' => is_inside = false,
            c if c.is_whitespace() && !is_inside => {
                words.push(std::mem::take(&mut word));
                continue;
            }
            _ => {}
        }
        word.push(c);
    }
    if is_inside {
        return Err("a bracket is not closed".to_owned());
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_overrides_the_file() {
        let (none, level) = (Given::default(), Given { algorithm: false, level: Some(19) });
        let other = Given { algorithm: true, level: None };
        let both = "--set=algorithm_params=priority=0 level=1 dict=/d";
        let raised = "--set=algorithm_params=priority=0 level=19 dict=/d";
        let dictionary = "--set=algorithm_params=priority=0 dict=/d";
        for (value, given, option) in [
            ("zstd", none, None),
            ("zstd(level=1)", none, Some("--level=1")),
            // The level of the command line follows the file's level, and so overrides it.
            ("zstd(level=1)", level, Some("--level=1")),
            ("zstd(level=1)", other, None),
            ("zstd(level=1, dict=/d)", none, Some(both)),
            ("zstd(dict=/d,level=1)", level, Some(raised)),
            ("zstd(dict=/d)", level, Some(raised)),
            ("zstd(dict=/d)", none, Some(dictionary)),
            ("zstd(dict=/d)", other, None),
        ] {
            let options = algorithms(value, &given).unwrap();
            assert_eq!(options[0], "--algorithm=zstd");
            assert_eq!(options.get(1).map(String::as_str), option, "{value}: {given:?}");
        }
    }
}
