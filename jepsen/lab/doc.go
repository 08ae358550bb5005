// Package lab provides machines for tests: guests of User Mode Linux with kernels, disks and networks of
// their own, which a test boots, crashes, pauses and partitions.
//
//	l := lab.New(t, lab.Config{Guests: 2})   // skips where it cannot run; closes at the test's end
//	l.MustBoot(t)
//	one, two := l.Guest(1), l.Guest(2)
//	one.MustExec(t, "pvcreate /dev/ubdc && vgcreate vg /dev/ubdc")
//	out, code, err := two.Exec(ctx, "drbdadm primary r0")
//	err = one.Crash()                        // a loss of power: what was not on its disks is lost
//	err = one.Boot(ctx)
//	err = l.Isolate(ctx, lab.Replication, 2) // or Management, or API; Block and Partition for parts of it
//	err = l.ReconnectAll(ctx)
//
// # A guest
//
// Its root is an overlay of the host's own root, read-only, and a tmpfs, so that it has
// every program of the host and its own /etc, and forgets all when it ends. Over a boot stay:
//
//	/dev/ubdb      ext4, at /disk: /var/lib/holdfast, /var/lib/kubelet, /var/lib/drbd and
//	               /etc/drbd.d are on it
//	/dev/ubdc ...  raw disks, for LVM, which looks at nothing else; Config.Disks and AddDisk
//	/lab           a directory of the host, Guest.Shared; /lab/log has the logs of jobs
//
// There is no udev and no systemd. Volume groups are not activated at boot. `modprobe`
// works. The holdfast binary under test is at /usr/sbin/holdfast, of the root that the
// kernel's helpers see as well. Host names are n1, n2, ...
//
// # Networks
//
// Each guest has vec0 for replication, vec1 for the driver and vec2 for Raft and the API,
// each on a bridge of its own: 10.99.X.N, X from the lab's number and the network. The
// host is .254 on vec1 and on none of the others.
//
// # Holdfast
//
// A cluster runs in the guests as on hosts: a controller in each of the first three, a node
// in each.
//
//	c, err := l.NewCluster(ctx, lab.ClusterConfig{
//		Setup: "pvcreate /dev/ubdc && vgcreate vg /dev/ubdc",
//		Pool:  "lvm:vg/pool",
//	})
//	err = c.Start(ctx)                       // returns when all vote and all are reachable
//	conn, err := c.ControllerCSI(2)          // gRPC; NodeCSI likewise
//	err = c.Ask(ctx, &answer, "volumes")     // an operator's command, in JSON; Admin for any
//	err = c.KillNode(ctx, 1)                 // SIGKILL; StartNode starts it again
//	err = c.Lab.Guest(1).Crash()
//	err = c.BootGuest(ctx, 1)                // and starts its processes
//
// # Ends
//
// Several labs run at once; a number, locked while one runs, sets names and subnets. A
// guard process removes a lab when its driver ends, also after a panic or SIGKILL, and
// what even that left is removed by the next lab of the number.
package lab
