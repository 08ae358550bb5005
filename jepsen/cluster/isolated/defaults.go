package isolated

import "path/filepath"

// Flags of every member: snapshots of Raft, checkpoints and segments come often, so that a run of a minute has them all.
var (
	controllerDefaults = []string{"--checkpoint-every=16", "--snapshot-threshold=64", "--snapshot-interval=1s",
		"--wal-segment-size=1048576", "--disk-reserve=4194304", "--disk-guard=8388608", "--journal-retain=33554432"}
	nodeDefaults = []string{"--min-free=1MiB", "--enable-fault-points"}
)

// argv is the member's command line.
func (m *Member) argv() []string {
	c := m.cluster
	base := filepath.Join(c.pki(m.role, m.ID), string(m.role)+"-"+m.ID)
	common := []string{string(m.role), "--data-dir", m.DataDir(), "--metrics-listen", m.metrics(), "--csi-endpoint", m.csi(),
		"--cert", base + ".crt", "--key", base + ".key", "--ca", filepath.Join(c.pki(m.role, m.ID), "ca.crt")}
	if m.role == nodeRole {
		return append(common, c.nodeArgs(m)...)
	}
	return append(common, c.controllerArgs(m)...)
}

func (c *Cluster) controllerArgs(m *Member) []string {
	args := []string{"--name", m.ID, "--raft-listen", m.raft(), "--api-listen", m.api()}
	c.mu.Lock()
	first := !c.founded && m.ID == "c1"
	c.mu.Unlock()
	if first {
		args = append(args, "--bootstrap")
	}
	for _, other := range c.Controllers() {
		if other != m && !first {
			args = append(args, "--join", other.raft())
		}
	}
	if c.opts.LogStore != "" {
		args = append(args, "--log-store", c.opts.LogStore)
	}
	return append(append(args, controllerDefaults...), c.opts.ControllerArgs...)
}

func (c *Cluster) nodeArgs(m *Member) []string {
	args := []string{"--node-id", m.ID, "--pool-dir", m.PoolDir(), "--allow-root", c.view.Mounts()}
	for _, controller := range c.Controllers() {
		args = append(args, "--endpoints", controller.api())
	}
	if !c.opts.PoolsOfOld {
		args = append(args, "--pool-image=never")
	}
	return append(append(args, nodeDefaults...), c.opts.NodeArgs...)
}
