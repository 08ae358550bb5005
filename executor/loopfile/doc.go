// Package loopfile is the backend that needs nothing but a Linux kernel and
// root: a pool is a folder, a volume is a sparse file in it, and its block
// device is a loop device.
//
//	<pool>/.holdfast-pool          the pool's identity; without it the pool is absent (S12)
//	<pool>/volumes/<volume>.img    one regular file per volume
//	<pool>/snapshots/              one regular file per snapshot
//	<pool>/tmp/                    what is being made; never looked at as a volume
//
// A file is made whole in tmp/ and then renamed, so volumes/ holds finished
// images only. Loop devices are set up and taken down through ioctls; they are
// recognised by the device and inode number of their backing file, never by
// their number, so a restarted process adopts what its predecessor made.
//
// Snapshots and clones share blocks with their source where the filesystem under
// the pool can (xfs with reflink, btrfs); else they are copies without the holes.
// What a snapshot holds and how two differ is read from the filesystem's map: two
// ranges in one shared place are equal. Where blocks are not shared the bytes are
// compared. Either way a difference is never left out; a block that is equal may be
// named where an image was written with what it held.
package loopfile
