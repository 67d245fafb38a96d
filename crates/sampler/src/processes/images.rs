//! The images of samples, by the identity of their files.

use crate::processes::threads::process_file;
use profile::{BuildId, FileIdentity, Image, ImageId, ImageKind};
use rustc_hash::{FxHashMap, FxHashSet};
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Number of image files held open, so that they can be read after their deletion.
const HELD_FILES: usize = 512;

/// Major and minor device number, and inode.
type InodeNumber = (u32, u32, u64);

/// All images seen so far.
pub(crate) struct ImageTable {
    images: Vec<Image>,
    /// Images by device and inode. A file of unknown generation (seen in `/proc`) matches any.
    by_file: FxHashMap<InodeNumber, Vec<(Option<u64>, ImageId)>>,
    by_name: FxHashMap<(ImageKind, String), ImageId>,
    /// Files of images that appeared during the recording.
    held: FxHashMap<ImageId, File>,
    held_limit: usize,
    /// The mount of `/`, if files on other mounts are not to be held open, because that would
    /// prevent unmounting.
    root_mount: Option<String>,
    /// Files that are not held for that reason.
    spared: FxHashSet<ImageId>,
    /// Numbers of images that were forgotten.
    free: Vec<ImageId>,
}

/// The image of everything unknown.
pub(crate) const UNKNOWN: ImageId = ImageId(0);
/// The image of kernel addresses until [`crate::kernel_symbols`] tells kernel and modules apart.
pub(crate) const KERNEL: ImageId = ImageId(1);

impl ImageTable {
    pub fn new() -> Self {
        let mut table = Self {
            images: Vec::new(),
            by_file: FxHashMap::default(),
            by_name: FxHashMap::default(),
            held: FxHashMap::default(),
            held_limit: HELD_FILES,
            root_mount: None,
            spared: FxHashSet::default(),
            free: Vec::new(),
        };
        table.images.push(Image::unknown());
        let kernel = table.named_image(ImageKind::Kernel, "[kernel]");
        debug_assert_eq!(kernel, KERNEL);
        table
    }

    /// Returns the image of a name in brackets.
    pub fn named_image(&mut self, kind: ImageKind, path: &str) -> ImageId {
        if let Some(id) = self.by_name.get(&(kind, path.to_owned())) {
            return *id;
        }
        let id = self.add_image(Image {
            kind,
            path: path.to_owned(),
            build_id: None,
            file: None,
            gone: false,
        });
        self.by_name.insert((kind, path.to_owned()), id);
        id
    }

    /// Returns the image of code without a file in `pid`.
    pub fn anonymous_image(&mut self, pid: u32) -> ImageId {
        self.named_image(ImageKind::Anonymous, &format!("[anon {pid}]"))
    }

    /// Returns the image of this file, which was mapped from `path`.
    pub fn file_image(&mut self, file: FileIdentity, path: &str) -> ImageId {
        let id = match self.find_image(&file, Some(file.generation)) {
            Some(id) => id,
            None => self.add_file(file, Some(file.generation)),
        };
        self.set_name(id, path);
        id
    }

    /// Returns the image of this file as `/proc` shows it: without its generation.
    pub fn file_of_any_generation(&mut self, file: FileIdentity, path: &str) -> ImageId {
        let id = match self.find_image(&file, None) {
            Some(id) => id,
            None => self.add_file(file, None),
        };
        self.set_name(id, path);
        id
    }

    /// Returns the image of this file, named by its identity until a record gives its path.
    pub fn file_without_path(&mut self, file: FileIdentity) -> ImageId {
        match self.find_image(&file, Some(file.generation)) {
            Some(id) => id,
            None => self.add_file(file, Some(file.generation)),
        }
    }

    fn find_image(&mut self, file: &FileIdentity, generation: Option<u64>) -> Option<ImageId> {
        let key = (file.major, file.minor, file.inode);
        let known = self.by_file.get_mut(&key)?;
        if generation.is_none() {
            return known.last().map(|entry| entry.1);
        }
        if let Some(entry) = known.iter().find(|entry| entry.0 == generation) {
            return Some(entry.1);
        }
        let entry = known.iter_mut().find(|entry| entry.0.is_none())?;
        entry.0 = generation;
        let id = entry.1;
        if let Some(identity) = &mut self.images[id.0 as usize].file {
            identity.generation = file.generation;
        }
        Some(id)
    }

    fn add_file(&mut self, file: FileIdentity, generation: Option<u64>) -> ImageId {
        let id = self.add_image(Image {
            kind: ImageKind::File,
            path: String::new(),
            build_id: None,
            file: Some(file),
            gone: false,
        });
        let key = (file.major, file.minor, file.inode);
        self.by_file.entry(key).or_default().push((generation, id));
        id
    }

    fn add_image(&mut self, image: Image) -> ImageId {
        if let Some(id) = self.free.pop() {
            self.images[id.0 as usize] = image;
            return id;
        }
        let id = ImageId(self.images.len() as u32);
        self.images.push(image);
        id
    }

    fn set_name(&mut self, id: ImageId, path: &str) {
        let image = &mut self.images[id.0 as usize];
        if image.path.is_empty() {
            image.path = path.strip_suffix(" (deleted)").unwrap_or(path).to_owned();
        }
    }

    /// Sets the build-id, unless one is known.
    pub fn set_build_id(&mut self, id: ImageId, build_id: BuildId) {
        self.images[id.0 as usize].build_id.get_or_insert(build_id);
    }

    /// Keeps file systems unmountable: from now on only files on the mount of `/` are held open.
    pub fn spare_mounts(&mut self) {
        self.root_mount = File::open("/").ok().and_then(|root| mount_of(&root));
    }

    /// Keeps the file open as process `pid` sees it, so that it can be read after its deletion. A
    /// deleted file is found by its mapping.
    pub fn hold_file(&mut self, id: ImageId, pid: u32, mapped: Option<Range<u64>>) {
        if self.held.len() >= self.held_limit
            || self.held.contains_key(&id)
            || self.spared.contains(&id)
        {
            return;
        }
        let image = &self.images[id.0 as usize];
        let Some(identity) = image.file else { return };
        let here = open_same(&image.path, identity, None);
        if let (Some(file), Some(root)) = (&here, &self.root_mount)
            && mount_of(file).as_ref() != Some(root)
        {
            self.spared.insert(id);
            return;
        }
        let theirs = || {
            open_same(
                &process_file(pid, &format!("root{}", image.path)),
                identity,
                None,
            )
        };
        let by_mapping = || open_mapped(pid, mapped?, identity);
        if let Some(file) = here.or_else(theirs).or_else(by_mapping) {
            self.held.insert(id, file);
        }
    }

    /// Closes the files of all images but these.
    pub fn release_but(&mut self, used: &FxHashSet<ImageId>) {
        self.held.retain(|id, _| used.contains(id));
        self.spared.retain(|id| used.contains(id));
    }

    /// Returns the file, if it is held open.
    pub fn held_file(&self, id: ImageId) -> Option<&File> {
        self.held.get(&id)
    }

    pub fn get(&self, id: ImageId) -> &Image {
        &self.images[id.0 as usize]
    }

    /// Forgets all images but `used`, and closes the files of the others, so that a daemon does not
    /// grow with every program. The numbers of used images do not change.
    pub fn forget_unused(&mut self, used: &FxHashSet<ImageId>) {
        let kept = |id: &ImageId| *id == UNKNOWN || *id == KERNEL || used.contains(id);
        self.by_file.retain(|_, known| {
            known.retain(|(_, id)| kept(id));
            !known.is_empty()
        });
        self.by_name.retain(|_, id| kept(id));
        self.held.retain(|id, _| kept(id));
        self.spared.retain(|id| kept(id));
        let free: FxHashSet<ImageId> = self.free.iter().copied().collect();
        for number in 0..self.images.len() as u32 {
            let id = ImageId(number);
            if !kept(&id) && !free.contains(&id) {
                self.images[number as usize] = Image::unknown();
                self.free.push(id);
            }
        }
    }

    /// Returns the files whose path `is` accepts.
    pub fn with_path(&self, is: impl Fn(&str) -> bool) -> FxHashSet<ImageId> {
        let numbered = (0..).map(ImageId).zip(&self.images);
        let wanted = numbered.filter(|(_, image)| image.kind == ImageKind::File && is(&image.path));
        wanted.map(|(id, _)| id).collect()
    }

    /// Returns the number of known images.
    pub fn len(&self) -> usize {
        self.images.len() - self.free.len()
    }

    /// Returns the image for a recording; one that was only seen by its number is named by that.
    pub fn finished_image(&self, id: ImageId) -> Image {
        let mut image = self.get(id).clone();
        if let (true, Some(file)) = (image.path.is_empty(), image.file) {
            image.path = Image::path_of_number(file);
            image.gone = true;
        }
        image
    }

    /// Returns whether an image was only ever seen by its number.
    pub fn has_nameless(&self) -> bool {
        self.images.iter().any(|image| image.path.is_empty())
    }
}

/// Opens the file if it is still the same one: under its path in this process, or as `pid` sees it.
pub(crate) fn open_same(path: &str, identity: FileIdentity, pid: Option<u32>) -> Option<File> {
    let theirs = pid.map(|pid| process_file(pid, &format!("root{path}")));
    let places = std::iter::once(path.to_owned()).chain(theirs);
    places
        .filter(|place| place.starts_with('/'))
        .find_map(|place| {
            let file = open_regular(&place)?;
            is_same(&file, identity).then_some(file)
        })
}

pub(crate) fn open_regular(path: impl AsRef<Path>) -> Option<File> {
    // A path that a process chose may be a pipe or a device: opening must not wait.
    use std::os::unix::fs::OpenOptionsExt;
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}

/// Opens a file by its mapping, or as the process's executable, which needs no privilege.
pub(crate) fn open_mapped(pid: u32, mapped: Range<u64>, identity: FileIdentity) -> Option<File> {
    let Range { start, end } = mapped;
    let links = [format!("map_files/{start:x}-{end:x}"), "exe".to_owned()];
    links.iter().find_map(|link| {
        let file = open_regular(process_file(pid, link))?;
        is_same(&file, identity).then_some(file)
    })
}

/// Returns the identity of an open file, as far as the system reports it.
pub(crate) fn identity_of(file: &File) -> Option<FileIdentity> {
    let data = file.metadata().ok()?;
    Some(FileIdentity {
        major: libc::major(data.dev()),
        minor: libc::minor(data.dev()),
        inode: data.ino(),
        generation: generation_of(file).unwrap_or(0),
    })
}

/// Returns the kernel's number of the mount through which a file was opened.
fn mount_of(file: &File) -> Option<String> {
    let path = format!("/proc/self/fdinfo/{}", file.as_raw_fd());
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("mnt_id:"))?;
    Some(line.trim().to_owned())
}

fn is_same(file: &File, identity: FileIdentity) -> bool {
    // The device is not compared: btrfs and stacked file systems show another one to stat(2).
    let same_number = file
        .metadata()
        .is_ok_and(|meta| meta.ino() == identity.inode);
    // A file that replaces another often gets its inode number, which was just freed.
    let of_other = |generation| identity.generation != 0 && generation != identity.generation;
    same_number && !generation_of(file).is_some_and(of_other)
}

/// Returns the generation of a file's inode, on file systems that report it.
fn generation_of(file: &File) -> Option<u64> {
    const FS_IOC_GETVERSION: libc::c_ulong = 0x8008_7601;
    let mut version = 0u64;
    // SAFETY: the kernel writes four or eight bytes, depending on the file system, through the
    // pointer.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_GETVERSION as _, &raw mut version) };
    // File systems that write eight bytes use numbers of 32 bits as well.
    (result == 0).then_some(version & u64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_has_taken_the_number_of_another_is_not_the_same() {
        let program = tempfile::NamedTempFile::new().unwrap();
        let inode = program.as_file().metadata().unwrap().ino();
        let path = program.path().to_str().unwrap();
        let Some(generation) = generation_of(program.as_file()) else {
            return; // this file system reports none
        };
        let is_found = |generation| open_same(path, identity(inode, generation), None).is_some();
        assert!(is_found(generation));
        assert!(is_found(0), "not known, as of /proc");
        assert!(!is_found(generation + 1));
    }

    fn identity(inode: u64, generation: u64) -> FileIdentity {
        FileIdentity {
            major: 8,
            minor: 1,
            inode,
            generation,
        }
    }

    #[test]
    fn a_number_that_was_used_again_is_another_image() {
        let mut table = ImageTable::new();
        let old = table.file_image(identity(7, 1), "/tmp/a.out");
        let new = table.file_image(identity(7, 2), "/tmp/a.out");
        assert_ne!(old, new);
        assert_eq!(table.file_without_path(identity(7, 1)), old);
        assert_eq!(table.file_without_path(identity(7, 2)), new);
    }

    #[test]
    fn a_file_from_proc_is_known_by_its_first_generation() {
        let mut table = ImageTable::new();
        let seen = table.file_of_any_generation(identity(7, 0), "/bin/x (deleted)");
        assert_eq!(table.file_without_path(identity(7, 5)), seen);
        assert_ne!(table.file_without_path(identity(7, 6)), seen);
        assert_eq!(table.get(seen).path, "/bin/x");
    }

    #[test]
    fn what_is_forgotten_leaves_its_number_to_others() {
        let mut table = ImageTable::new();
        let kept = table.file_image(identity(7, 1), "/kept");
        let old = table.file_image(identity(8, 1), "/old");
        let anon = table.anonymous_image(5);
        assert_eq!(table.len(), 5);
        for _ in 0..2 {
            table.forget_unused(&FxHashSet::from_iter([kept]));
            assert_eq!(table.len(), 3);
        }
        let new = table.file_image(identity(9, 1), "/new");
        assert!(new == old || new == anon);
        assert_eq!(table.get(new).path, "/new");
        assert_eq!(table.file_image(identity(7, 1), "/kept"), kept);
        assert_ne!(table.file_image(identity(8, 1), "/old"), new);
        assert_eq!(table.get(UNKNOWN).path, "[unknown]");
    }

    #[test]
    fn files_on_other_mounts_are_not_held_open() {
        let mut program = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut program, b"code").unwrap();
        let inode = program.as_file().metadata().unwrap().ino();
        let path = program.path().to_str().unwrap().to_owned();
        let held = |root: Option<&str>| {
            let mut table = ImageTable::new();
            table.root_mount = root.map(str::to_owned);
            let id = table.file_image(identity(inode, 0), &path);
            for _ in 0..2 {
                table.hold_file(id, std::process::id(), None);
            }
            let held = table.held_file(id).is_some();
            table.release_but(&FxHashSet::default());
            assert!(table.held_file(id).is_none());
            held
        };
        let own = mount_of(program.as_file()).unwrap();
        assert!(held(None));
        assert!(held(Some(&own)));
        assert!(!held(Some("another")));
    }

    #[test]
    fn an_image_without_a_path_gets_one_later() {
        let mut table = ImageTable::new();
        let id = table.file_without_path(identity(9, 1));
        assert!(table.has_nameless());
        assert_eq!(table.file_image(identity(9, 1), "/lib/y.so"), id);
        assert!(!table.has_nameless());
    }
}
