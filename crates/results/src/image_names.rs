//! Names of images that a path alone does not distinguish.

use profile::{Container, ImageKind, Recording};
use rustc_hash::{FxHashMap, FxHashSet};

/// Number of digits of a build-id that are shown.
const DIGITS: usize = 8;

/// Returns the name of each image: its path. If another file has the same path and no container in
/// common, as in two mount namespaces, the beginning of the build-id follows, or the container of
/// an image without one.
///
/// Successive builds in one place, as of a recompiled program, share one name.
pub(crate) fn image_names(recording: &Recording) -> Vec<String> {
    let images = &recording.images;
    let mut names: Vec<String> = images.iter().map(|image| image.path.clone()).collect();
    let mut by_path: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
    let files = images
        .iter()
        .enumerate()
        .filter(|(_, image)| image.kind == ImageKind::File);
    for (number, image) in files {
        by_path.entry(&image.path).or_default().push(number);
    }
    by_path.retain(|_, numbers| numbers.len() > 1);
    if by_path.is_empty() {
        return names;
    }
    let containers = containers_of_images(recording, by_path.values().flatten().copied());
    for numbers in by_path.values() {
        for &one in numbers {
            let is_apart = |other: &&usize| {
                let is_same = images[one].build_id.is_some()
                    && images[one].build_id == images[**other].build_id;
                !is_same && is_disjoint(&containers, one, **other)
            };
            if numbers.iter().any(|other| is_apart(&other)) {
                let label = match &images[one].build_id {
                    Some(id) => id.to_string().chars().take(DIGITS).collect(),
                    None => container_label(&containers[&one]),
                };
                names[one] = format!("{} [{label}]", images[one].path);
            }
        }
    }
    names
}

type Containers = FxHashMap<usize, FxHashSet<Option<Container>>>;

/// Returns the containers in which each of these images was sampled, in any frame.
fn containers_of_images(recording: &Recording, wanted: impl Iterator<Item = usize>) -> Containers {
    let mut found: Containers = wanted
        .map(|number| (number, FxHashSet::default()))
        .collect();
    let mut of_group = FxHashMap::default();
    for sample in &recording.samples {
        for location in recording.stacks.locations(sample.stack) {
            if let Some(containers) = found.get_mut(&(location.image.0 as usize)) {
                let container = of_group
                    .entry(sample.cgroup)
                    .or_insert_with(|| Container::of_cgroup(recording.names.get(sample.cgroup?)));
                if !containers.contains(container) {
                    containers.insert(container.clone());
                }
            }
        }
    }
    found
}

fn is_disjoint(containers: &Containers, one: usize, other: usize) -> bool {
    let (one, other) = (&containers[&one], &containers[&other]);
    !one.is_empty() && !other.is_empty() && one.is_disjoint(other)
}

fn container_label(containers: &FxHashSet<Option<Container>>) -> String {
    let label = |one: &Option<Container>| match one {
        Some(container) => container.to_string(),
        None => "no container".to_owned(),
    };
    containers.iter().map(label).min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{
        BuildId, CallGraph, Collector, EventId, Host, Image, ImageId, ImageOffset, Location,
        Sample, Target,
    };

    fn recording(images: &[(Option<u8>, &str)]) -> Recording {
        let mut recording = Recording::new(
            Host::default(),
            Target::Machine,
            Collector::Bpf,
            CallGraph::None,
        );
        let process = recording.names.intern("server");
        for (number, (id, group)) in (0..).zip(images) {
            recording.images.push(Image {
                kind: ImageKind::File,
                path: "/app/server".to_owned(),
                build_id: id.and_then(|byte| BuildId::new(&[byte; 20])),
                file: None,
                gone: false,
            });
            let place = Location {
                image: ImageId(number),
                offset: ImageOffset(1),
            };
            let cgroup = Some(recording.names.intern(group));
            let stack = recording.stacks.intern(place, None);
            recording.samples.push(Sample {
                cgroup,
                ..Sample::new(EventId(0), process, stack, 1)
            });
        }
        recording
    }

    #[test]
    fn one_path_in_two_containers_is_two_images() {
        let group = |digit: &str| format!("/docker/{}", digit.repeat(64));
        let (a, b) = (group("a"), group("b"));
        let names = |images: &[(Option<u8>, &str)]| image_names(&recording(images));
        let plain = "/app/server";
        assert_eq!(
            names(&[(Some(0x1a), &a), (Some(0x2b), &b), (Some(0x3c), "/")]),
            [
                "/app/server [1a1a1a1a]",
                "/app/server [2b2b2b2b]",
                "/app/server [3c3c3c3c]"
            ]
        );
        // The same program in both; a program that was recompiled in one place.
        assert_eq!(names(&[(Some(1), &a), (Some(1), &b)]), [plain; 2]);
        assert_eq!(names(&[(Some(1), &a), (Some(2), &a)]), [plain; 2]);
        assert_eq!(names(&[(Some(1), "/x"), (Some(2), "/y")]), [plain; 2]);
        assert_eq!(
            names(&[(None, &a), (None, &b)]),
            [
                "/app/server [docker aaaaaaaaaaaa]",
                "/app/server [docker bbbbbbbbbbbb]"
            ]
        );
    }
}
