package dev

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-storage/holdfast/durablefile"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// Cluster is the content of cluster.json, which tests and the operators' commands
// read. A dead process has pid 0.
type Cluster struct {
	Version     int          `json:"version"`
	Controllers []Controller `json:"controllers"`
	Nodes       []Node       `json:"nodes"`
}

// Controller is one controller's process.
type Controller struct {
	ID          string `json:"id"`
	PID         int    `json:"pid"`
	CSIEndpoint string `json:"csi_endpoint"`
	API         string `json:"api"`
	Metrics     string `json:"metrics"`
	DataDir     string `json:"data_dir"`
}

// Node is one node's process.
type Node struct {
	ID          string `json:"id"` // CSI's node id
	PID         int    `json:"pid"`
	CSIEndpoint string `json:"csi_endpoint"`
	Metrics     string `json:"metrics"`
	PoolDir     string `json:"pool_dir"`
	DataDir     string `json:"data_dir"`
}

// ReadCluster reads the cluster.json of a developer's cluster.
func ReadCluster(dir string) (*Cluster, error) {
	path := filepath.Join(dir, "cluster.json")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read what runs in %s: %w; start it with `holdfast dev --dir %s`", dir, err, dir)
	}
	var c Cluster
	if err := json.Unmarshal(text, &c); err != nil || c.Version != 1 {
		return nil, fmt.Errorf("read what runs in %s: cluster.json is not of this version", dir)
	}
	return &c, nil
}

// clusterOf returns the content of cluster.json for the running processes.
func clusterOf(l layout, s *settings, pids map[string]int) *Cluster {
	c := &Cluster{Version: 1, Controllers: []Controller{}, Nodes: []Node{}}
	for _, id := range ids("c", s.Controllers) {
		c.Controllers = append(c.Controllers, Controller{
			ID: id, PID: pids[id], CSIEndpoint: l.endpoint(id), DataDir: l.controller(id),
			API: s.address(id, "api"), Metrics: s.address(id, "metrics"),
		})
	}
	for _, id := range ids("n", s.Nodes) {
		c.Nodes = append(c.Nodes, Node{
			ID: id, PID: pids[id], CSIEndpoint: l.endpoint(id), Metrics: s.address(id, "metrics"),
			PoolDir: l.pool(id), DataDir: l.nodeData(id),
		})
	}
	return c
}

// replaceJSON replaces a file atomically: a reader sees the old content or the new.
func replaceJSON(path string, content any) error {
	text, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := durablefile.Write(path, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// Endpoints returns the API addresses of the controllers, the running ones first.
func (c *Cluster) Endpoints() []string {
	var alive, dead []string
	for _, one := range c.Controllers {
		if one.PID != 0 {
			alive = append(alive, one.API)
		} else {
			dead = append(dead, one.API)
		}
	}
	return append(alive, dead...)
}

// AdminFiles returns the certificate that allows operators' commands to change a developer's cluster.
func AdminFiles(dir string) pki.Files { return layout{dir}.files(pki.Admin, "dev") }
