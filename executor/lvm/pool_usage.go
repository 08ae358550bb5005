package lvm

import (
	"fmt"
	"strconv"
	"strings"
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
	usage := poolUsage{transaction: uint64(n.parse(f[0])), metadataSnapHeld: f[3] != "-", mode: f[4]}
	usage.metaUsed, usage.metaTotal = n.parseFraction(f[1])
	usage.dataUsed, usage.dataTotal = n.parseFraction(f[2])
	for _, word := range f[5:] {
		usage.errorsWhenFull = usage.errorsWhenFull || word == "error_if_no_space"
		usage.needsCheck = usage.needsCheck || word == "needs_check"
	}
	if n.err != nil || usage.metaTotal == 0 || usage.dataTotal == 0 {
		return poolUsage{}, fmt.Errorf("read the pool's status %q", params)
	}
	return usage, nil
}

// dataPercent and metadataPercent are how full data and metadata are, in percent, rounded up.
func (u *poolUsage) dataPercent() int { return percent(u.dataUsed, u.dataTotal) }

func (u *poolUsage) metadataPercent() int { return percent(u.metaUsed, u.metaTotal) }

func percent(used, all int64) int { return int((used*100 + all - 1) / all) }

// poolDevice returns the pool's device-mapper name and its status: the thin pool becomes a layer
// below the pool's own device as soon as it has volumes.
func (p *thinPool) poolDevice() (name string, usage poolUsage, err error) {
	for _, name := range []string{dmName(p.VG, p.ThinPool, "tpool"), dmName(p.VG, p.ThinPool)} {
		target, params, err := p.kernel.status(name)
		if err != nil {
			return "", poolUsage{}, err
		}
		if target == "thin-pool" {
			usage, err := parseUsage(params)
			return name, usage, err
		}
	}
	return "", poolUsage{}, &absentError{fmt.Sprintf("pool %s is absent: it is not active", p.name())}
}

// allocatedBytes is how many bytes the pool has allocated for an active volume.
func (p *thinPool) allocatedBytes(name string) (int64, error) {
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
