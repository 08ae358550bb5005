package dev

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"

	"github.com/holdfast-storage/holdfast/cmd/exit"
)

// settings are chosen at the first start and kept for the life of DIR.
type settings struct {
	Version     int    `json:"version"`
	Cluster     string `json:"cluster"`
	Controllers int    `json:"controllers"`
	Nodes       int    `json:"nodes"`
	// Ports are chosen once: by process, then by purpose.
	Ports map[string]map[string]int `json:"ports"`
	// Founded is set once the cluster was ready: from then on c1 never bootstraps a new cluster
	// again, not even in an emptied directory.
	Founded bool `json:"founded"`
}

func (s *settings) address(id, purpose string) string {
	return fmt.Sprintf("127.0.0.1:%d", s.Ports[id][purpose])
}

// errNoSettings: DIR never had a developer's cluster.
var errNoSettings = errors.New("there is no developer's cluster")

func readSettings(l layout) (*settings, error) {
	text, err := os.ReadFile(l.settingsFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s", errNoSettings, l.dir)
	}
	if err != nil {
		return nil, fmt.Errorf("read the settings of the developer's cluster: %w", err)
	}
	var s settings
	if err := json.Unmarshal(text, &s); err != nil || s.Version != 1 {
		return nil, exit.Refusedf("read the settings of the developer's cluster: %s is not of this version; use the holdfast that made it, or `holdfast dev clean --dir %s`", l.settingsFile(), l.dir)
	}
	return &s, nil
}

// loadOrCreateSettings reads the settings, or chooses them. Other numbers than at the first start are refused.
func loadOrCreateSettings(l layout, controllers, nodes int) (*settings, error) {
	s, err := readSettings(l)
	switch {
	case errors.Is(err, errNoSettings):
		return createSettings(l, controllers, nodes)
	case err != nil:
		return nil, err
	}
	return s, s.requireCounts(l, controllers, nodes)
}

// requireCounts refuses other numbers than those of the settings.
func (s *settings) requireCounts(l layout, controllers, nodes int) error {
	if s.Controllers == controllers && s.Nodes == nodes {
		return nil
	}
	return exit.Usagef("start the cluster in %s: it was made with --controllers %d --nodes %d; use these numbers, or another --dir", l.dir, s.Controllers, s.Nodes)
}

func createSettings(l layout, controllers, nodes int) (*settings, error) {
	s := &settings{Version: 1, Cluster: "dev", Controllers: controllers, Nodes: nodes, Ports: map[string]map[string]int{}}
	taken := map[int]bool{}
	choosePorts := func(id string, purposes ...string) error {
		s.Ports[id] = map[string]int{}
		for _, purpose := range purposes {
			port, err := freePort(taken)
			if err != nil {
				return err
			}
			s.Ports[id][purpose] = port
		}
		return nil
	}
	for _, id := range ids("c", controllers) {
		if err := choosePorts(id, "raft", "api", "metrics"); err != nil {
			return nil, err
		}
	}
	for _, id := range ids("n", nodes) {
		if err := choosePorts(id, "metrics"); err != nil {
			return nil, err
		}
	}
	return s, s.save(l)
}

// The ports are below Linux's range for outgoing connections, so that none of these takes one while
// the cluster is stopped.
const firstPort, lastPort = 20000, 32000

func freePort(taken map[int]bool) (int, error) {
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if taken[port] {
			continue
		}
		if err := tryPort(fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			taken[port] = true
			return port, nil
		}
	}
	return 0, exit.Unavailablef("choose ports for the cluster: none is free between %d and %d", firstPort, lastPort)
}

// tryPort reports whether an address can be listened on.
func tryPort(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return listener.Close()
}

// Names maps the Raft addresses of a developer's cluster to the controllers' ids; empty when DIR has
// none.
func Names(dir string) map[string]string {
	names := map[string]string{}
	s, err := readSettings(layout{dir})
	if err != nil {
		return names
	}
	for _, id := range ids("c", s.Controllers) {
		names[s.address(id, "raft")] = id
	}
	return names
}

func (s *settings) save(l layout) error { return replaceJSON(l.settingsFile(), s) }
