package lvm

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// poolUsage is what the kernel reports of an active thin pool.
type poolUsage struct {
	transaction         uint64
	metaUsed, metaTotal int64 // blocks
	dataUsed, dataTotal int64 // blocks
	metadataSnapHeld    bool  // a metadata snapshot is reserved
	mode                string
	errorsWhenFull      bool
	needsCheck, failed  bool
}

// parseUsage reads a thin-pool's status line, as Documentation/admin-guide/device-mapper/
// thin-provisioning.rst describes it.
func parseUsage(params string) (poolUsage, error) {
	f := strings.Fields(params)
	if len(f) == 1 && (f[0] == "Fail" || f[0] == "Error") {
		return poolUsage{failed: true, mode: f[0]}, nil
	}
	if len(f) < 8 {
		return poolUsage{}, fmt.Errorf("read the pool's status %q: it is too short", params)
	}
	n := numberParser{}
	u := poolUsage{transaction: uint64(n.parse(f[0])), metadataSnapHeld: f[3] != "-", mode: f[4]}
	u.metaUsed, u.metaTotal = n.parseFraction(f[1])
	u.dataUsed, u.dataTotal = n.parseFraction(f[2])
	for _, word := range f[5:] {
		u.errorsWhenFull = u.errorsWhenFull || word == "error_if_no_space"
		u.needsCheck = u.needsCheck || word == "needs_check"
	}
	if n.err != nil || u.metaTotal == 0 || u.dataTotal == 0 {
		return poolUsage{}, fmt.Errorf("read the pool's status %q", params)
	}
	return u, nil
}

func (n *numberParser) parseFraction(text string) (used, all int64) {
	before, after, _ := strings.Cut(text, "/")
	return n.parse(before), n.parse(after)
}

// dataPercent and metadataPercent are how full data and metadata are, in percent, rounded up.
func (u *poolUsage) dataPercent() int     { return percent(u.dataUsed, u.dataTotal) }
func (u *poolUsage) metadataPercent() int { return percent(u.metaUsed, u.metaTotal) }

func percent(used, all int64) int { return int((used*100 + all - 1) / all) }

// refusalReason is why nothing new may be created in a pool that full; empty: it may.
func (u *poolUsage) refusalReason(maxData, maxMetadata int) string {
	switch {
	case u.failed:
		return "the kernel gave it up (" + u.mode + "): repair it with `lvconvert --repair`"
	case u.needsCheck:
		return "its metadata needs a check: deactivate it, and repair it with `lvconvert --repair`"
	case u.mode == "out_of_data_space":
		return "its data space is full"
	case u.mode != "rw":
		return "it is " + u.mode
	case u.metadataPercent() > maxMetadata:
		return fmt.Sprintf("its metadata is used to more than %d %%: make it larger with `lvextend --poolmetadatasize`", maxMetadata)
	case u.dataPercent() > maxData:
		return fmt.Sprintf("its data space is used to more than %d %%: make it larger with `lvextend`", maxData)
	}
	return ""
}

// poolDevice returns the pool's device-mapper name and its status: the thin pool becomes a layer
// below the pool's own device as soon as it has volumes.
func (p *Pool) poolDevice() (name string, u poolUsage, err error) {
	for _, name := range []string{dmName(p.VG, p.ThinPool, "tpool"), dmName(p.VG, p.ThinPool)} {
		target, params, err := p.kernel.status(name)
		if err != nil {
			return "", poolUsage{}, err
		}
		if target == "thin-pool" {
			u, err := parseUsage(params)
			return name, u, err
		}
	}
	return "", poolUsage{}, &absentError{fmt.Sprintf("pool %s is absent: it is not active", p.name())}
}

// Facts measures the pool. One that refuses new volumes reports no free bytes: that keeps
// placement away from it, and the detail says why.
func (p *Pool) Facts(ctx context.Context) executor.PoolFacts {
	facts := executor.PoolFacts{ID: p.id}
	v, u, err := p.readUsage(ctx)
	switch {
	case err != nil:
		facts.Absent, facts.Detail = true, err.Error()
		return facts
	case u.failed:
		facts.Absent, facts.Detail = true, fmt.Sprintf("pool %s is absent: %s", p.name(), u.refusalReason(p.MaxData, p.MaxMetadata))
		return facts
	}
	facts.Capacity = u.dataTotal * v.chunkBytes
	if reason := u.refusalReason(p.MaxData, p.MaxMetadata); reason != "" {
		facts.Detail = fmt.Sprintf("pool %s takes nothing new: %s", p.name(), reason)
		return facts
	}
	facts.Free = (u.dataTotal - u.dataUsed) * v.chunkBytes
	return facts
}

func (p *Pool) readUsage(ctx context.Context) (*poolState, poolUsage, error) {
	v, err := p.recentState(ctx)
	if err == nil && !p.isPrepared() {
		var done func()
		if done, v, err = p.lockFresh(ctx); err == nil {
			done()
		}
	}
	if err != nil {
		return nil, poolUsage{}, err
	}
	_, u, err := p.poolDevice()
	return v, u, err
}

// checkAcceptsNew refuses to create anything new in a pool that would not zero it, that blocks its
// writers when it is full (S12), that is nearly full, or that has thin devices unknown to LVM.
func (p *Pool) checkAcceptsNew(ctx context.Context, v *poolState) error {
	name, u, err := p.poolDevice()
	switch {
	case err != nil:
		return err
	case !v.zeroesBlocks:
		return fsm.Reject(fsm.Precondition, "pool %s does not zero new blocks, so that a volume would show old data: run `lvchange --zero y %s`", p.name(), p.name())
	case !u.failed && !(v.errorWhenFull && u.errorsWhenFull):
		return fsm.Reject(fsm.Precondition, "pool %s hangs its writers when it is full: run `lvchange --errorwhenfull y %s`", p.name(), p.name())
	}
	if reason := u.refusalReason(p.MaxData, p.MaxMetadata); reason != "" {
		return fsm.Reject(fsm.NoCapacity, "pool %s takes nothing new: %s", p.name(), reason)
	}
	if u.transaction != v.transaction {
		return fmt.Errorf("pool %s takes nothing new: its metadata is at transaction %d, LVM's is at %d: if this stays, compare the volumes with `thin_ls` and repair by hand",
			p.name(), u.transaction, v.transaction)
	}
	return p.checkOrphans(ctx, name, v)
}

// allocatedBytes is how many bytes the pool has allocated for an active volume.
func (p *Pool) allocatedBytes(name string) (int64, error) {
	target, params, err := p.kernel.status(dmName(p.VG, name))
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
