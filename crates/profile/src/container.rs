//! Containers, by the paths of their control groups.

/// Number of digits of a container's id that are shown, as in the runtimes' own lists.
const SHORT: usize = 12;

/// Number of digits of a container's id.
const ID: usize = 64;

/// Prefixes of a container's directory, with its runtime. systemd appends `.scope`.
const PREFIXES: [(&str, &str); 6] = [
    ("docker-", "docker"),
    ("cri-containerd-", "containerd"),
    ("nerdctl-", "containerd"),
    ("crio-", "cri-o"),
    ("libpod-", "podman"),
    ("containerd-", "containerd"),
];

/// Directories above containers whose own directory is only the id.
const PARENTS: [(&str, &str); 4] = [
    ("docker", "docker"),
    ("libpod_parent", "podman"),
    ("containerd", "containerd"),
    ("default", "containerd"),
];

/// A container that a control group belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Container {
    /// The runtime, if the path shows it: `docker`, `containerd`, `cri-o`, `podman`, `lxc`.
    pub runtime: Option<&'static str>,
    /// The id, shortened, or LXC's name; `None` for processes of a pod outside of its containers.
    pub id: Option<String>,
    /// The uid of the Kubernetes pod.
    pub pod: Option<String>,
}

impl Container {
    /// Returns the container of a control group by its path; of nested containers, the innermost.
    pub fn of_cgroup(path: &str) -> Option<Self> {
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        let pod = names.iter().rev().find_map(|name| {
            // `SLICE:cri-containerd:ID` has the pod in its first part.
            pod_of(name.split(':').next()?)
        });
        let mut found = None;
        for (at, name) in names.iter().enumerate().rev() {
            let parent = at.checked_sub(1).and_then(|above| names.get(above));
            found = container_in(name, parent.copied().unwrap_or_default(), pod.is_some());
            if found.is_some() {
                break;
            }
        }
        match (found, pod) {
            (Some((runtime, id)), pod) => Some(Self {
                runtime,
                id: Some(id),
                pod,
            }),
            (None, Some(pod)) => Some(Self {
                runtime: None,
                id: None,
                pod: Some(pod),
            }),
            (None, None) => None,
        }
    }
}

impl std::fmt::Display for Container {
    /// Writes `docker 3f2a1b4c5d6e`, `pod 1b2c3d4e-… containerd 3f2a1b4c5d6e`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(pod) = &self.pod {
            write!(f, "pod {pod}")?;
        }
        let Some(id) = &self.id else { return Ok(()) };
        if self.pod.is_some() {
            f.write_str(" ")?;
        }
        write!(f, "{} {id}", self.runtime.unwrap_or("container"))
    }
}

/// Returns the runtime and short id of the container with this directory.
fn container_in(name: &str, parent: &str, in_pod: bool) -> Option<(Option<&'static str>, String)> {
    // `/lxc/NAME`, `/lxc.payload.NAME`.
    if let Some(name) = name.strip_prefix("lxc.payload.") {
        return Some((Some("lxc"), name.to_owned()));
    }
    if parent == "lxc" {
        return Some((Some("lxc"), name.to_owned()));
    }
    let bare = name.strip_suffix(".scope").unwrap_or(name);
    // cri-o's process that watches a container is not in it.
    let prefixed = PREFIXES.iter().find_map(|(prefix, runtime)| {
        Some((Some(*runtime), short_id(bare.strip_prefix(prefix)?)?))
    });
    if prefixed.is_some() {
        return prefixed;
    }
    // `PARENT/ID` of cgroupfs drivers; `SLICE:cri-containerd:ID` of a driver that does not fit its
    // runtime.
    let mut parts = bare.rsplitn(3, ':');
    let (last, middle) = (parts.next()?, parts.next());
    let id = short_id(last)?;
    let runtime = match middle {
        Some(prefix) => PREFIXES
            .iter()
            .find(|(known, _)| known.trim_end_matches('-') == prefix)
            .map(|(_, runtime)| *runtime),
        None => PARENTS
            .iter()
            .find(|(known, _)| *known == parent)
            .map(|(_, runtime)| *runtime),
    };
    (runtime.is_some() || in_pod || middle.is_some()).then_some((runtime, id))
}

/// Returns the beginning of an id of 64 hexadecimal digits.
fn short_id(text: &str) -> Option<String> {
    let is_id = text.len() == ID && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_id.then(|| text[..SHORT].to_owned())
}

/// Returns the uid of the pod with this directory: `podUID` of the cgroupfs driver,
/// `kubepods-burstable-podUID.slice` of systemd's, which has `_` for `-`.
fn pod_of(name: &str) -> Option<String> {
    let bare = name.strip_suffix(".slice").unwrap_or(name);
    let uid = match bare.rsplit_once("-pod") {
        Some((above, uid)) if above.contains("kubepods") => uid,
        _ => bare.strip_prefix("pod")?,
    };
    let uid = uid.replace('_', "-");
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_hexdigit());
    // Static pods have a hash without dashes.
    let is_uid = uid.len() >= 32 && uid.split('-').all(is_part);
    is_uid.then_some(uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "3f2a1b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708";
    const UID: &str = "1b2c3d4e-5f6a-7b8c-9d0e-1f2a3b4c5d6e";

    fn shown(path: &str) -> String {
        Container::of_cgroup(path).map_or_else(String::new, |container| container.to_string())
    }

    #[test]
    fn containers_of_each_runtime_and_driver_are_named() {
        let id = "3f2a1b4c5d6e";
        for (path, name) in [
            (
                format!("/system.slice/docker-{A}.scope"),
                format!("docker {id}"),
            ),
            (format!("/docker/{A}"), format!("docker {id}")),
            (format!("/docker/{A}/init.scope"), format!("docker {id}")),
            (
                format!(
                    "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{A}.scope/container"
                ),
                format!("podman {id}"),
            ),
            (
                format!("/machine.slice/libpod-{A}.scope"),
                format!("podman {id}"),
            ),
            (format!("/libpod_parent/libpod-{A}"), format!("podman {id}")),
            (
                format!("/system.slice/nerdctl-{A}.scope"),
                format!("containerd {id}"),
            ),
            (format!("/default/{A}"), format!("containerd {id}")),
            (
                "/lxc.payload.web-1/system.slice/nginx.service".to_owned(),
                "lxc web-1".to_owned(),
            ),
            ("/lxc/web-1".to_owned(), "lxc web-1".to_owned()),
        ] {
            assert_eq!(shown(&path), name, "{path}");
        }
    }

    #[test]
    fn pods_are_named_by_their_uid() {
        let under = UID.replace('-', "_");
        let id = "3f2a1b4c5d6e";
        let slices =
            format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{under}.slice");
        for (path, name) in [
            (
                format!("{slices}/cri-containerd-{A}.scope"),
                format!("pod {UID} containerd {id}"),
            ),
            (
                format!("{slices}/crio-{A}.scope"),
                format!("pod {UID} cri-o {id}"),
            ),
            (
                format!("{slices}/docker-{A}.scope"),
                format!("pod {UID} docker {id}"),
            ),
            // A guaranteed pod has no class in its path.
            (
                format!("/kubepods.slice/kubepods-pod{under}.slice/cri-containerd-{A}.scope"),
                format!("pod {UID} containerd {id}"),
            ),
            (
                format!("/kubepods/besteffort/pod{UID}/{A}"),
                format!("pod {UID} container {id}"),
            ),
            (
                format!("/kubepods/pod{UID}/{A}"),
                format!("pod {UID} container {id}"),
            ),
            // A node in a container, as with kind.
            (
                format!(
                    "/docker/{}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{under}.slice/cri-containerd-{A}.scope",
                    "0".repeat(64)
                ),
                format!("pod {UID} containerd {id}"),
            ),
            // systemd's driver of kubelet with another driver of containerd.
            (
                format!(
                    "/system.slice/containerd.service/kubepods-burstable-pod{under}.slice:cri-containerd:{A}"
                ),
                format!("pod {UID} containerd {id}"),
            ),
            (slices.clone(), format!("pod {UID}")),
            (
                format!("/kubepods/burstable/pod{}/{A}", "a".repeat(32)),
                format!("pod {} container {id}", "a".repeat(32)),
            ),
        ] {
            assert_eq!(shown(&path), name, "{path}");
        }
    }

    #[test]
    fn other_groups_are_no_containers() {
        for path in [
            "/",
            "",
            "/init.scope",
            "/system.slice/docker.service",
            "/system.slice/containerd.service",
            "/user.slice/user-1000.slice/session-2.scope",
            "/kubepods.slice/kubepods-burstable.slice",
            "/podman/conmon",
            "/jobs/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            "/docker/short",
        ] {
            assert_eq!(Container::of_cgroup(path), None, "{path}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_path_is_read(path in "\\PC{0,80}", name in "[a-z:/._-]{0,40}") {
            let _ = Container::of_cgroup(&path);
            let _ = Container::of_cgroup(&format!("/kubepods{name}-pod{path}"));
        }
    }
}
