package hostcheck

// checkNamespaces judges what a pod shares with its host. Outside of one all is shared.
func checkNamespaces(f *Facts) (all []Finding) {
	n := f.Namespaces
	if n == nil || !f.Wants.Replication && !f.Wants.ThinPool {
		return nil
	}
	if f.Wants.Replication && n.OwnPID {
		all = append(all, fail("set `hostPID: true` in the node's pod", "the process has a pid namespace of its own, so the host's root, on which the kernel runs DRBD's helper, cannot be seen"))
	}
	if f.Wants.Replication && (n.OwnNet || n.OwnUTS) {
		all = append(all, fail("set `hostNetwork: true` in the node's pod", "the process has a network or a host name of its own, and DRBD has the host's"))
	}
	if f.Wants.ThinPool && n.OwnIPC {
		all = append(all, warn("set `hostIPC: true` in the node's pod", "the process has an IPC namespace of its own: LVM waits for the host's udev by semaphores that are not shared"))
	}
	if len(all) == 0 {
		all = append(all, okf("the process has the namespaces of the host that it needs"))
	}
	return all
}

// unsignedModule is the finding of a module that is not loaded yet, was built beside the kernel and may be refused by it.
func (n moduleNeed) unsignedModule(f *Facts) Finding {
	return warn("run `modprobe "+n.name+"`; where it is refused, sign it and enrol the key with `mokutil --import`, or use the kernel's own module",
		"the module %s, for %s, was built beside the kernel, and this host loads signed modules only (Secure Boot)", n.name, n.purpose)
}
