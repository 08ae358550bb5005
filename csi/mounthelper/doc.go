// Package mounthelper mounts volumes on a host that has no orchestrator: it makes the calls that one would make, to the
// controllers and to the node of this host, in CSI's order. The log stays the fence: a volume that another host uses is
// refused.
//
// What it mounts it first writes into a record of this host, so that after an end at any step, or after a boot, the
// same mount or the unmount goes on. A record permits nothing: the node asks the log again. Unmounting works without
// the controllers; the record then stays until they have been told.
package mounthelper
