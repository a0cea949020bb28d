//! Short names that tell configurations apart, for sentences and charts.

/// Short names of configurations, without the settings that all have. Where these are not unique,
/// the full names.
pub fn labels(names: &[&str]) -> Vec<String> {
    let full = || names.iter().map(|name| name.to_string()).collect();
    // Settings in parentheses are those of a part.
    if names.len() < 2 || names.iter().any(|name| name.contains('(')) {
        return full();
    }
    let parts: Vec<Vec<&str>> =
        names.iter().map(|name| name.split([':', ',']).collect::<Vec<_>>()).collect();
    let is_common = |part: &str| parts.iter().all(|all| all.contains(&part));
    let is_bare = |all: &Vec<&str>| all[1..].iter().all(|part| is_common(part));
    // Settings alone are a name only beside other settings.
    let all_alike = parts.iter().all(|all| all[0] == parts[0][0] && !is_bare(all));
    let short = |all: &Vec<&str>| {
        let (first, settings) = (all[0], &all[1..]);
        let own: Vec<&str> = settings.iter().copied().filter(|part| !is_common(part)).collect();
        match own.is_empty() {
            true => first.to_string(),
            false if all_alike => own.join(","),
            false => format!("{first}:{}", own.join(",")),
        }
    };
    let labels: Vec<String> = parts.iter().map(short).collect();
    let unique = labels.iter().enumerate().all(|(i, label)| !labels[..i].contains(label));
    if unique { labels } else { full() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_have_what_tells_them_apart() {
        let greedy = "lfs:size=128M,cache=4M,victim=greedy";
        let twin = "lfs:size=128M,cache=4M,victim=twin,placement=twin";
        assert_eq!(labels(&[greedy, twin]), ["victim=greedy", "victim=twin,placement=twin"]);
        assert_eq!(labels(&["lfs:size=1G", "ffs:size=1G"]), ["lfs", "ffs"]);
        assert_eq!(labels(&["lfs", "lfs:cache=8M", "ffs"]), ["lfs", "lfs:cache=8M", "ffs"]);
        assert_eq!(labels(&["lfs", "lfs:cache=8M"]), ["lfs", "lfs:cache=8M"]);
        assert_eq!(labels(&[greedy]), [greedy]);
        assert_eq!(labels(&["lfs:cache=8M", "lfs:cache=8M"]), ["lfs:cache=8M"; 2]);
    }
}
