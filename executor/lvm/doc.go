// Package lvm is the backend over LVM: a pool is a thin pool, a volume a thin volume
// in it, a snapshot a thin snapshot, and sharing of blocks is what the pool does.
//
//	VG/POOL            tag holdfast-pool=hp-...: the pool's identity; without it it is absent (S12)
//	VG/hf-<uuid>       a volume;   tags holdfast, holdfast-size=<bytes>, holdfast-ready
//	VG/hs-<uuid>       a snapshot; the same tags
//	VG-hf--...-holdfast  a linear device over a volume: the volume's block device
//
// What has no holdfast-ready yet is unfinished: the tag is set last, by a command of
// its own. Logical volumes without the tag holdfast are somebody else's and are
// never touched.
//
// LVM rounds sizes up to its extents. The linear device on top is exactly as large as
// the volume; it also is what says that a volume is attached, and whether read-only,
// whatever LVM or the boot activated below it. Its name and its UUID are those of a
// layer of LVM's own, so that neither LVM nor udev looks at what is on it: a guest's
// volume group must never become one of the host's. For the same reason every lvm
// command is told which devices not to look at.
//
// A pool that is full hangs or fails all its writers, so that what makes the pool
// fuller is refused from a threshold on, of data and of metadata; a full pool fails
// writes at once (error_if_no_space). LVM opens a thin device that the pool's metadata
// has and LVM does not know as if it were new, with the old data: such devices are
// looked for before anything is made, and a new volume must have no block mapped.
package lvm
