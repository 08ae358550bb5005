package backendtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Host is one host of a World: its disks, and its kernel while it is up.
type Host struct {
	world   *World
	node    fsm.NodeID
	up      bool
	boots   int
	started int // counts the processes
	process *Process

	pools   []*Pool
	configs map[fsm.VolumeID]executor.ResourceConfig // resource files
	targets map[string]bool                          // paths that were made to bind to: true for a file
	foreign map[string]bool                          // paths that hold something else

	kernel
}

// kernel is what a host loses when it reboots.
type kernel struct {
	devices  map[fsm.VolumeID]*device
	mappings map[fsm.VolumeID]*mapping // of encrypted volumes
	mounts   []*mountEntry
	limits   map[string]fsm.VolumeID // by a device's path: whose limits it has
	writers  []*Writer
	lastPID  int // of them
	busy     map[string]bool
	watchers []*watcher
}

func newKernel() kernel {
	return kernel{devices: map[fsm.VolumeID]*device{}, mappings: map[fsm.VolumeID]*mapping{}, limits: map[string]fsm.VolumeID{}, busy: map[string]bool{}}
}

func newHost(w *World, node fsm.NodeID) *Host {
	return &Host{
		world: w, node: node, up: true, boots: 1, kernel: newKernel(),
		configs: map[fsm.VolumeID]executor.ResourceConfig{}, targets: map[string]bool{}, foreign: map[string]bool{},
	}
}

// Node is the host's name.
func (h *Host) Node() fsm.NodeID { return h.node }

// World is the world that the host is in.
func (h *Host) World() *World { return h.world }

// BootID is another one after each boot.
func (h *Host) BootID() string {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	return fmt.Sprintf("%s-boot-%d", h.node, h.boots)
}

// Up reports whether the host has power.
func (h *Host) Up() bool {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	return h.up
}

// Pool returns a pool, nil when the host has none of this id.
func (h *Host) Pool(id fsm.PoolID) *Pool {
	for _, p := range h.pools { // never changes once the host is used
		if p.config.ID == id {
			return p
		}
	}
	return nil
}

// Reboot restarts the host: its process, its kernel and what was not written to its disks are
// gone; what its disks have in their caches is written.
func (h *Host) Reboot() {
	h.world.change(func() {
		for _, p := range h.pools {
			p.flushAll()
		}
		h.powerOff(nil)
		h.powerOn()
	})
}

// PowerLoss ends everything on the host at once. Each block that a disk had not written durably is
// decided by choose(3): 0 it is lost, 1 it was written, 2 half of it was. Without choose all are
// lost. The host is down until Boot.
func (h *Host) PowerLoss(choose func(n int) int) {
	h.world.change(func() { h.powerOff(choose) })
}

// Boot gives the host power. Nothing is active on it.
func (h *Host) Boot() {
	h.world.change(func() {
		if !h.up {
			h.powerOn()
		}
	})
}

func (h *Host) powerOff(choose func(n int) int) {
	if !h.up {
		return
	}
	h.endProcess()
	h.up = false
	for _, wr := range h.writers {
		wr.gone = true
	}
	h.kernel = newKernel()
	h.world.dropChildren(h)
	h.world.dropHandlers(h)
	h.world.powerOffReplicas(h)
	for _, p := range h.pools {
		p.loseUnsynced(choose)
	}
}

func (h *Host) powerOn() {
	h.up = true
	h.boots++
	h.world.powerOnReplicas(h)
}

// SetBusy says that something on the host keeps files open at a path, or no longer does.
func (h *Host) SetBusy(path string, busy bool) {
	h.world.change(func() { h.busy[realPath(path)] = busy })
}

// SetForeign puts something at a path that no process of the host made, or takes it away.
func (h *Host) SetForeign(path string, there bool) {
	h.world.change(func() { h.foreign[realPath(path)] = there })
}

// realPrefix begins the paths as the kernel names them: callers' paths lead there by a symbolic
// link.
const realPrefix = "/real"

func realPath(path string) string {
	path = "/" + strings.Trim(path, "/")
	if strings.HasPrefix(path, realPrefix+"/") {
		return path
	}
	return realPrefix + path
}

// sortedKeys lists a map's keys in order.
func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
