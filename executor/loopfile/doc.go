// Package loopfile is the backend that needs nothing but a Linux kernel and
// root: a pool is a directory, a volume is a sparse file in it, and its block
// device is a loop device.
//
//	<pool>/.holdfast-pool          the pool's identity; without it the pool is absent (S12)
//	<pool>/volumes/<volume>.img    one regular file per volume
//	<pool>/snapshots/              one regular file per snapshot
//	<pool>/tmp/                    unfinished files; never treated as volumes
//
// A file is completed in tmp/ and then renamed, so volumes/ contains finished
// images only. Loop devices are set up and removed through ioctls; they are
// recognised by the device and inode number of their backing file, never by
// their number, so a restarted process adopts the devices of the earlier one.
//
// Snapshots and clones share blocks with their source where the filesystem under
// the pool can (xfs with reflink, btrfs); else they are sparse copies.
// What a snapshot holds and how two differ is read from the filesystem's extent map:
// two ranges with the same shared physical extent are equal. Where blocks are not
// shared the bytes are compared. Either way no difference is left out; a block with
// equal content may be reported where an image was overwritten with the same bytes.
//
// Pool is the backend, made of parts, each in the files of its name:
//
//	pool_*        poolDir, which the parts share: the pool's directory, and whether it is the
//	              one it was; abilities: what is measured of it
//	image_*       the volumes' files: creating, copying, removing
//	loop_*        loopDevices over the images, from a cached and verified table of the kernel's
//	map_*         what a snapshot holds and how two differ
//	filesystem_*  Filesystem: an xfs of the pool's own, where the filesystem below shares no blocks
package loopfile
