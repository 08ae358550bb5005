package isolated

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/netns"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/relay"
)

// role is what a member is, in the words of its certificate.
type role string

const (
	controllerRole role = "controller"
	nodeRole       role = "node"
)

// prefix begins the ids of members of a role.
func (r role) prefix() string { return string(r[0]) }

// Member is one controller or node: a host, a disk and a process.
type Member struct {
	ID      string
	role    role
	cluster *Cluster
	host    *netns.Host
	disk    *Disk

	mu      sync.Mutex
	process *process // the running one, else nil
	ended   string   // how the last one ended
	wanted  bool     // it is to be started again when it ends
	limited bool     // a limit may have ended one of its processes
	spoiled *relay.Relay
}

// addMember makes a member that was never started.
func (c *Cluster) addMember(ctx context.Context, r role) (*Member, error) {
	c.mu.Lock()
	c.made[r]++
	id := fmt.Sprintf("%s%d", r.prefix(), c.made[r])
	c.mu.Unlock()
	m := &Member{ID: id, role: r, cluster: c}
	var err error
	if m.host, err = c.net.Add(ctx, id); err != nil {
		return nil, err
	}
	if m.disk, err = c.makeDisk(ctx, m); err != nil {
		return nil, fmt.Errorf("make the disk of %s: %w", id, err)
	}
	if err := c.issue(ctx, r, id, usualValidity); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at := len(c.members)
	if r == controllerRole {
		at = slices.IndexFunc(append(c.members, &Member{role: nodeRole}), func(o *Member) bool { return o.role == nodeRole })
	}
	c.members = slices.Insert(c.members, at, m)
	return m, nil
}

// Controls tells whether the member is a controller.
func (m *Member) Controls() bool { return m.role == controllerRole }

// Host is the member's host in the network.
func (m *Member) Host() *netns.Host { return m.host }

// Disk is the member's filesystem.
func (m *Member) Disk() *Disk { return m.disk }

// DataDir is where the member's process keeps its data, as it sees it.
func (m *Member) DataDir() string { return filepath.Join(m.disk.seen, "data") }

// PoolDir is where a node keeps its volumes, as it sees it.
func (m *Member) PoolDir() string { return filepath.Join(m.disk.seen, "pool") }

// LogPath is the file with all that the member's processes printed.
func (m *Member) LogPath() string { return m.cluster.dir("log", m.ID+".log") }

// Addresses of the member, each with its port.
func (m *Member) raft() string    { return m.host.Addr() + ":9800" }
func (m *Member) metrics() string { return m.host.Addr() + ":9801" }
func (m *Member) api() string     { return m.host.Addr() + ":9802" }

// csi is the member's CSI endpoint.
func (m *Member) csi() string { return "unix://" + m.cluster.dir("sock", m.ID+".sock") }

// writeLayout says who runs now to who reads the cluster's directory.
func (c *Cluster) writeLayout() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	var l harness.Layout
	for _, m := range c.members {
		if m.role == controllerRole {
			l.Controllers = append(l.Controllers, harness.Controller{ID: m.ID, PID: m.PID(), Endpoint: m.csi(), API: m.api(), Metrics: m.metrics(), DataDir: m.DataDir()})
		} else {
			l.Nodes = append(l.Nodes, harness.Node{ID: m.ID, PID: m.PID(), Endpoint: m.csi(), Metrics: m.metrics(), PoolDir: m.PoolDir(), DataDir: m.DataDir()})
		}
	}
	return c.view.WriteLayout(l)
}
