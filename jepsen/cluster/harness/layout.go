package harness

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Layout is cluster.json: where everything of a developer's cluster is.
type Layout struct {
	Version     int          `json:"version"`
	Controllers []Controller `json:"controllers"`
	Nodes       []Node       `json:"nodes"`
}

// Controller is one controller process; PID is 0 while it is dead.
type Controller struct {
	ID       string `json:"id"`
	PID      int    `json:"pid"`
	Endpoint string `json:"csi_endpoint"`
	API      string `json:"api"`
	Metrics  string `json:"metrics"`
	DataDir  string `json:"data_dir"`
}

// Node is one node process; PID is 0 while it is dead. ID is CSI's node id.
type Node struct {
	ID       string `json:"id"`
	PID      int    `json:"pid"`
	Endpoint string `json:"csi_endpoint"`
	Metrics  string `json:"metrics"`
	PoolDir  string `json:"pool_dir"`
	DataDir  string `json:"data_dir"`
}

// WriteLayout replaces a cluster's layout: who reads it sees the old one or the new.
func (c *Cluster) WriteLayout(l Layout) error {
	l.Version = 1
	text, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(c.Dir, "cluster.json")
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// ReadLayout reads the cluster.json of a cluster in a directory.
func ReadLayout(dir string) (Layout, error) {
	path := filepath.Join(dir, "cluster.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		return Layout{}, err
	}
	var l Layout
	if err := json.Unmarshal(raw, &l); err != nil {
		return Layout{}, fmt.Errorf("read %s: %w", path, err)
	}
	if l.Version != 1 {
		return Layout{}, fmt.Errorf("read %s: version %d is not 1", path, l.Version)
	}
	return l, nil
}

// IDs are the names of all children, controllers first.
func (l Layout) IDs() []string {
	return append(l.ControllerIDs(), l.NodeIDs()...)
}

// ControllerIDs are the names of the controllers.
func (l Layout) ControllerIDs() []string {
	var ids []string
	for _, c := range l.Controllers {
		ids = append(ids, c.ID)
	}
	return ids
}

// NodeIDs are the names of the nodes.
func (l Layout) NodeIDs() []string {
	var ids []string
	for _, n := range l.Nodes {
		ids = append(ids, n.ID)
	}
	return ids
}

// PID is the process of a child, 0 while it is dead or when there is none.
func (l Layout) PID(id string) int {
	for _, c := range l.Controllers {
		if c.ID == id {
			return c.PID
		}
	}
	for _, n := range l.Nodes {
		if n.ID == id {
			return n.PID
		}
	}
	return 0
}

// DataDir is the data directory of a child.
func (l Layout) DataDir(id string) string {
	for _, c := range l.Controllers {
		if c.ID == id {
			return c.DataDir
		}
	}
	for _, n := range l.Nodes {
		if n.ID == id {
			return n.DataDir
		}
	}
	return ""
}

// PoolDir is the directory of a node's pool.
func (l Layout) PoolDir(node string) string {
	for _, n := range l.Nodes {
		if n.ID == node {
			return n.PoolDir
		}
	}
	return ""
}
