//! `uzram stat PID --watch`: one line per second about a running program.

use crate::admin::watch::{Style, Watched};
use crate::error::Error;
use crate::text::{human, json_line};
use run::Figures;
use run::Program;

impl Watched for Program {
    const ENDED: &'static str = "the program has ended";

    fn head(style: Style) -> String {
        let columns = format!(
            "{:>10} {:>10} {:>10} {:>10} {:>7} {:>5}",
            "RESIDENT", "STORED", "COMPR", "HELD", "RATIO", "PROCS"
        );
        style.head(&columns, ["STORED", "LIMIT"], "ROOM")
    }

    fn line(&mut self, style: Style) -> Result<Option<String>, Error> {
        let line = |figures: Figures| match style {
            Style::Json => json_line(&figures),
            _ => line(&figures, style),
        };
        Ok(self.look().map(line))
    }
}

fn line(figures: &Figures, style: Style) -> String {
    let [resident, stored, compressed, held, limit] =
        ["resident", "stored", "compressed", "tree_held", "limit"].map(|name| figures.sum(name));
    let ratio = match compressed {
        0 => "-".to_owned(),
        bytes => format!("{:.2}", stored as f64 / bytes as f64),
    };
    let sizes = [resident, stored, compressed, held].map(|of| format!("{:>10} ", human(of)));
    let columns = format!("{}{ratio:>7} {:>5}", sizes.concat(), figures.processes.len());
    let bars = [(stored, resident.saturating_add(stored)), (held, limit)];
    style.values(&columns, bars, if figures.is_short() { "short" } else { "-" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stands_below_its_head() {
        let process = "{\"process\":7,\"resident\":1048576,\"stored\":3145728,\"limit\":4194304,\
            \"compressed\":1048576,\"tree_held\":2097152}";
        let processes = vec![serde_json::from_str(process).unwrap()];
        let figures = Figures::new(processes, 0, Some(true));
        for style in [Style::Plain, Style::Bars(16), Style::Bars(0)] {
            let (head, line) = (Program::head(style), line(&figures, style));
            assert_eq!(head.find("ROOM"), line.find("short"), "{head}{line}");
            assert!(
                line.starts_with("   1.0 MiB    3.0 MiB    1.0 MiB    2.0 MiB    3.00"),
                "{line}"
            );
            let bars = "[############....]  75%  [########........]  50%";
            assert_eq!(line.contains(bars), style == Style::Bars(16), "{line}");
        }
        let none = line(&Figures::default(), Style::Bars(16));
        assert!(none.contains("      - ") && none.ends_with(" -\n"), "{none}");
    }
}
