package lvm

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// usage is what the kernel says of an active thin pool.
type usage struct {
	transaction        uint64
	metaUsed, metaAll  int64 // blocks
	dataUsed, dataAll  int64 // blocks
	held               bool  // somebody has the metadata snapshot
	mode               string
	errorsWhenFull     bool
	needsCheck, failed bool
}

// parseUsage reads a thin-pool's status line, as Documentation/admin-guide/device-mapper/
// thin-provisioning.rst describes it.
func parseUsage(params string) (usage, error) {
	f := strings.Fields(params)
	if len(f) == 1 && (f[0] == "Fail" || f[0] == "Error") {
		return usage{failed: true, mode: f[0]}, nil
	}
	if len(f) < 8 {
		return usage{}, fmt.Errorf("read the pool's status %q: it is too short", params)
	}
	n := numbers{}
	u := usage{transaction: uint64(n.read(f[0])), held: f[3] != "-", mode: f[4]}
	u.metaUsed, u.metaAll = n.fraction(f[1])
	u.dataUsed, u.dataAll = n.fraction(f[2])
	for _, word := range f[5:] {
		u.errorsWhenFull = u.errorsWhenFull || word == "error_if_no_space"
		u.needsCheck = u.needsCheck || word == "needs_check"
	}
	if n.err != nil || u.metaAll == 0 || u.dataAll == 0 {
		return usage{}, fmt.Errorf("read the pool's status %q", params)
	}
	return u, nil
}

func (n *numbers) fraction(text string) (used, all int64) {
	before, after, _ := strings.Cut(text, "/")
	return n.read(before), n.read(after)
}

// data and metadata are how full they are, in percent, rounded up.
func (u *usage) data() int     { return percent(u.dataUsed, u.dataAll) }
func (u *usage) metadata() int { return percent(u.metaUsed, u.metaAll) }

func percent(used, all int64) int { return int((used*100 + all - 1) / all) }

// refusal is why nothing new may be made in the pool as full as it is; empty: it may.
func (u *usage) refusal(maxData, maxMetadata int) string {
	switch {
	case u.failed:
		return "the kernel gave it up (" + u.mode + "): repair it with `lvconvert --repair`"
	case u.needsCheck:
		return "its metadata needs a check: deactivate it, and repair it with `lvconvert --repair`"
	case u.mode == "out_of_data_space":
		return "its data space is full"
	case u.mode != "rw":
		return "it is " + u.mode
	case u.metadata() > maxMetadata:
		return fmt.Sprintf("its metadata is used to more than %d %%: make it larger with `lvextend --poolmetadatasize`", maxMetadata)
	case u.data() > maxData:
		return fmt.Sprintf("its data space is used to more than %d %%: make it larger with `lvextend`", maxData)
	}
	return ""
}

// poolDevice is the pool in the device mapper, and its status: the thin pool is a
// layer below the pool's own device as soon as it has volumes.
func (p *Pool) poolDevice() (name string, u usage, err error) {
	for _, name := range []string{mapped(p.VG, p.Pool, "tpool"), mapped(p.VG, p.Pool)} {
		target, params, err := p.kernel.status(name)
		if err != nil {
			return "", usage{}, err
		}
		if target == "thin-pool" {
			u, err := parseUsage(params)
			return name, u, err
		}
	}
	return "", usage{}, &absentError{fmt.Sprintf("pool %s is absent: it is not active", p.name())}
}

// Facts measures the pool. One that refuses new volumes has nothing free: that keeps
// placement away from it, and the detail says why.
func (p *Pool) Facts(ctx context.Context) executor.PoolFacts {
	facts := executor.PoolFacts{ID: p.id}
	v, u, err := p.measure(ctx)
	switch {
	case err != nil:
		facts.Absent, facts.Detail = true, err.Error()
		return facts
	case u.failed:
		facts.Absent, facts.Detail = true, fmt.Sprintf("pool %s is absent: %s", p.name(), u.refusal(p.MaxData, p.MaxMetadata))
		return facts
	}
	facts.Capacity = u.dataAll * v.chunk
	if why := u.refusal(p.MaxData, p.MaxMetadata); why != "" {
		facts.Detail = fmt.Sprintf("pool %s takes nothing new: %s", p.name(), why)
		return facts
	}
	facts.Free = (u.dataAll - u.dataUsed) * v.chunk
	return facts
}

func (p *Pool) measure(ctx context.Context) (*view, usage, error) {
	v, err := p.recent(ctx)
	if err == nil && !p.isPrepared() {
		var done func()
		if done, v, err = p.begin(ctx); err == nil {
			done()
		}
	}
	if err != nil {
		return nil, usage{}, err
	}
	_, u, err := p.poolDevice()
	return v, u, err
}

// admit refuses to make anything new in a pool that would not zero it, that hangs its
// writers when it is full (S12), that is nearly full, or whose metadata LVM does not
// know well.
func (p *Pool) admit(ctx context.Context, v *view) error {
	name, u, err := p.poolDevice()
	switch {
	case err != nil:
		return err
	case !v.zero:
		return fsm.Reject(fsm.Precondition, "pool %s does not zero new blocks, so that a volume would show old data: run `lvchange --zero y %s`", p.name(), p.name())
	case !u.failed && !(v.errors && u.errorsWhenFull):
		return fsm.Reject(fsm.Precondition, "pool %s hangs its writers when it is full: run `lvchange --errorwhenfull y %s`", p.name(), p.name())
	}
	if why := u.refusal(p.MaxData, p.MaxMetadata); why != "" {
		return fsm.Reject(fsm.NoCapacity, "pool %s takes nothing new: %s", p.name(), why)
	}
	if u.transaction != v.transaction {
		return fmt.Errorf("pool %s takes nothing new: its metadata is at transaction %d, LVM's is at %d: if this stays, compare the volumes with `thin_ls` and repair by hand",
			p.name(), u.transaction, v.transaction)
	}
	return p.checkOrphans(ctx, name, v)
}

// mappedBytes is how much of an active volume the pool has blocks for.
func (p *Pool) mappedBytes(name string) (int64, error) {
	target, params, err := p.kernel.status(mapped(p.VG, name))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(params, " ")
	sectors, err := strconv.ParseInt(first, 10, 64)
	if target != "thin" || err != nil {
		return 0, fmt.Errorf("the status of %s is not that of an active thin volume: %q", name, params)
	}
	const sector = 512
	return sectors * sector, nil
}
