// Package lvm is the backend over LVM: a pool is a thin pool, a volume a thin volume
// in it, a snapshot a thin snapshot; the thin pool shares their blocks.
//
//	VG/POOL            tag holdfast-pool=hp-...: the pool's identity; without it the pool is absent (S12)
//	VG/hf-<uuid>       a volume;   tags holdfast, holdfast-size=<bytes>, holdfast-ready
//	VG/hs-<uuid>       a snapshot; the same tags
//	VG/hf-<uuid>.new  what a Revert makes of a snapshot; the same tags
//	VG/hf-<uuid>.old  the volume that a Revert replaced
//	VG/...            being imported; tag holdfast-import=hf-<uuid>/<former name>, which stays
//	VG-hf--...-holdfast  a linear device over a volume: the volume's block device
//
// What lacks the tag holdfast-ready is unfinished: the tag is set last, by a command of
// its own. A Revert renames the volume to .old and a finished .new to the volume: where there are
// .old and .new and no volume, .new is the volume, and whoever changes the pool next renames it. Logical volumes without the tag holdfast belong to others and are never
// touched.
//
// LVM rounds sizes up to its extents. The linear device on top is exactly as large as
// the volume. It alone decides whether the volume is activated, and whether read-only,
// independently of what LVM or the boot activated below it. Its name and its UUID have
// the form of LVM's own layers, so that neither LVM nor udev scans its content: a
// guest's volume group must never become one of the host's. For the same reason every
// lvm command has a filter of devices that it must not scan.
//
// A full pool blocks or fails all its writers. So whatever allocates more of it is
// refused above a threshold of data and of metadata, and a full pool fails writes at
// once (error_if_no_space). A thin device that is in the pool's metadata but unknown to
// LVM (an orphan) would be opened by LVM as if it were new, with the old data: orphans
// are looked for before anything is created, and a new volume must have no block mapped.
//
// Pool is the backend, made of parts, each in the files of its name:
//
//	pool_*      thinPool, which all parts share: its identity, what LVM reports of it, its usage
//	            and limits; changeLock, which is held while something changes
//	metadata_*  metadataSnap: the pool's metadata while it is in use, and the orphans in it
//	volume_*    thinVolumes: what LVM creates and removes, for volumes and snapshots alike
//	layer       layers: the linear devices on top
//	map_*       snapshotMaps: what snapshots hold and how two differ, from thin_dump
//	tools_*     the commands: their settings, and what their failures mean
//	dm_*        what the kernel's device mapper reports
package lvm
