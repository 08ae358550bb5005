// Package mount creates filesystems, mounts them, and binds them and raw devices
// to paths, in a way that cannot destroy existing data:
//
//   - A filesystem is created only where both ends of the device were read and are
//     zero, or where this host started to create the same one before (S15). An
//     unreadable device is an error, never an empty one.
//   - What is mounted where is read from the kernel's mount table before and after
//     every step (S122); that a directory exists proves nothing.
//   - Paths are resolved below the allowed roots without following symbolic
//     links, and mounts are moved onto the opened file, not onto its path.
//   - Nothing is removed but an empty directory or an empty file that is no mount
//     point (S123), and nothing is unmounted lazily: a busy mount is Busy.
//
// It uses the kernel's own calls (fsopen, open_tree, mount_setattr, move_mount:
// Linux 5.12) and runs no program but mkfs, and for filesystems that are not
// mounted e2fsck, resize2fs, tune2fs and xfs_db.
package mount
