package executor

// Process is a process of the host that has a device, or a filesystem on it, open for writing.
type Process struct {
	PID int
	// Start is when it started, in the kernel's ticks since the boot: with it no other process of that PID is meant.
	Start uint64
	Name  string
	// Own: it is this process, or one that this process started.
	Own bool
	// Dying: none of its threads runs its code any more. What the kernel still completes for it, it does not see.
	Dying bool
}
