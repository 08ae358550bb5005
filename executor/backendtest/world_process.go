package backendtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// ErrProcessGone is returned by everything that a process asks for after its end: it has no effect.
var ErrProcessGone = errors.New("the process is gone")

// errHangs is how an effect says that the kernel makes its caller wait. It is tried again after
// each change, and never returned.
var errHangs = errors.New("it hangs in the kernel")

// Process is one node process, and has what an executor is configured with.
type Process struct {
	world  *World
	host   *Host
	number int
	gone   chan struct{}
	dead   bool
}

// StartProcess starts a node process; the one before is killed. It is nil while the host is down.
func (h *Host) StartProcess() *Process {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	if !h.up {
		return nil
	}
	h.endProcess()
	h.started++
	h.process = &Process{world: h.world, host: h, number: h.started, gone: make(chan struct{})}
	return h.process
}

// Process returns the process that runs, nil when none does.
func (h *Host) Process() *Process {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	return h.process
}

// Kill ends the process at once: whatever it asks for from now on has no effect. Its host, and
// filesystems that it froze, stay as they are.
func (p *Process) Kill() {
	p.world.change(func() {
		if p.host.process == p {
			p.host.endProcess()
		}
	})
}

// Gone is closed when the process has ended.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Pools returns the host's pools. Each is an executor.SnapshotBackend, too.
func (p *Process) Pools() (pools []executor.Backend) {
	for _, pool := range p.host.pools {
		pools = append(pools, &poolTools{p, pool})
	}
	return pools
}

// Mounter mounts on the host.
func (p *Process) Mounter() executor.Mounter { return &mountTools{p} }

// FilesystemTools changes filesystems on the host.
func (p *Process) FilesystemTools() executor.FilesystemTools { return &filesystemTools{p} }

// Freezer freezes filesystems of the host.
func (p *Process) Freezer() executor.Freezer { return &freezeTools{p} }

// Throttle limits devices of the host.
func (p *Process) Throttle() executor.Throttle { return &throttleTools{p} }

// Replicator is the host's DRBD. It is an executor.MetadataWiper, too.
func (p *Process) Replicator() executor.Replicator {
	return &replicatorTools{p, resourceTools{p}}
}

func (h *Host) endProcess() {
	if p := h.process; p != nil {
		p.dead = true
		close(p.gone)
		h.process = nil
		h.watchers = nil
	}
}

// effect names what a process does, for the gate.
type effect struct {
	part, name string
	volume     fsm.VolumeID
	snapshot   fsm.SnapshotID
	detail     string
}

func (p *Process) boundary(e effect) Boundary {
	return Boundary{Host: p.host.node, Process: p.number, Part: e.part, Effect: e.name, Volume: e.volume, Snapshot: e.snapshot, Detail: e.detail, Gone: p.gone}
}

// do does an effect between its two boundaries.
func (p *Process) do(ctx context.Context, e effect, act func() error) error {
	at := p.boundary(e)
	switch answer := p.ask(ctx, at); {
	case p.isGone():
		return ErrProcessGone
	case answer.kind == fails:
		return answer.err
	case answer.kind == lies:
		return nil
	case answer.kind == isStuck:
		return p.world.addChild(p.host, at, act)
	}
	err := p.act(func() error { return p.world.noted(act) })
	if p.isGone() {
		return ErrProcessGone
	}
	at.After = true
	answer := p.ask(ctx, at)
	switch {
	case p.isGone():
		return ErrProcessGone
	case answer.kind == fails:
		return answer.err
	}
	return err
}

// read does an observation.
func (p *Process) read(ctx context.Context, e effect, act func() error) error {
	at := p.boundary(e)
	at.Read = true
	answer := p.ask(ctx, at)
	switch {
	case p.isGone():
		return ErrProcessGone
	case answer.kind == fails:
		return answer.err
	case answer.kind != proceeds:
		return fmt.Errorf("%s hangs", at.Name())
	}
	return p.act(act)
}

func (p *Process) ask(ctx context.Context, at Boundary) Answer {
	if p.world.gate == nil || p.isGone() {
		return Answer{}
	}
	return p.world.gate.Pass(ctx, at)
}

// act calls a function under the lock until it does not hang.
func (p *Process) act(act func() error) error {
	for {
		changed, err := p.try(act)
		if changed == nil {
			return err
		}
		select {
		case <-changed:
		case <-p.gone:
			return ErrProcessGone
		}
	}
}

// try calls a function once. When it hangs, try returns what to wait for.
func (p *Process) try(act func() error) (<-chan struct{}, error) {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	if p.dead {
		return nil, ErrProcessGone
	}
	err := act()
	if errors.Is(err, errHangs) {
		return p.world.nextChange(), nil
	}
	return nil, err
}

// noted calls a function that changes something. The lock is held.
func (w *World) noted(act func() error) error {
	err := act()
	if !errors.Is(err, errHangs) {
		w.noteChange()
	}
	return err
}

func (p *Process) isGone() bool {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	return p.dead
}
