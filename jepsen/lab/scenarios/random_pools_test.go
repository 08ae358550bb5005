package scenarios

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fillerID is a thin device that LVM does not know, far from the numbers that it gives.
const fillerID = 16_000_000

// poolDevice is the kernel's device of the thin pool.
const poolDevice = "/dev/mapper/vg-pool-tpool"

// fillPool takes all data blocks of a host's pool.
func (r *randomRun) fillPool() (string, func()) {
	s, node := r.broken(true)
	r.env.fillPool(r.t, node)
	_ = run(r.t.Context(), r.guest(s.holder), s.fill()) // it fails, or the other replica takes it
	return s.v.name + " on " + node, func() {
		r.pending = append(r.pending, func() { r.emptyPool(r.t, node) })
		if r.guest(node).Running() {
			r.emptyPool(r.t, node)
		}
	}
}

func (w *env) fillPool(t *testing.T, node string) {
	t.Helper()
	w.mustExec(t, node, fmt.Sprintf(`set -e; dmsetup message %[1]s 0 "create_thin %[2]d"; l=$(dmsetup table %[1]s | cut -d' ' -f2)
dmsetup create filler --table "0 $l thin %[1]s %[2]d"; dmsetup mknodes filler
dd if=/dev/zero of=/dev/mapper/filler bs=1M oflag=direct 2>/dev/null || true
for i in $(seq 100); do dmsetup status %[1]s | grep -q out_of_data_space && exit 0; dd if=/dev/zero of=/dev/mapper/filler bs=64K oflag=direct,seek_bytes 2>/dev/null; sleep .1; done
dmsetup status %[1]s; exit 1`, poolDevice, fillerID))
}

// emptyPool removes the filler. A host that was started since may have the pool active again, or not yet.
func (w *env) emptyPool(t *testing.T, node string) {
	t.Helper()
	eventually(t, timeout, "the pool of "+node+" is emptied", func(ctx context.Context) error {
		return run(ctx, w.guest(node), fmt.Sprintf(`dmsetup info filler >/dev/null 2>&1 && dmsetup remove --retry filler
dmsetup info %[1]s >/dev/null && { dmsetup message %[1]s 0 "delete %[2]d" 2>/dev/null || true; }; ! dmsetup status %[1]s | grep -q out_of_data_space`, poolDevice, fillerID))
	})
}

// fillPoolMetadata takes all metadata blocks of a host's pool. The kernel then drops what the pool had not committed,
// and an operator repairs it: with the host started anew, and before its node runs.
func (r *randomRun) fillPoolMetadata() (string, func()) {
	s, node := r.broken(true)
	out := r.mustExec(r.t, node, fmt.Sprintf("/run/lab/writer fill --path %s --from %d", poolDevice, fillerID))
	_ = run(r.t.Context(), r.guest(s.holder), s.fill())
	eventually(r.t, timeout, "the pool is read-only", func(ctx context.Context) error {
		_ = run(ctx, r.guest(s.holder), s.fill()) // it allocates, which needs metadata
		return run(ctx, r.guest(node), fmt.Sprintf("dmsetup status %s | grep -E 'needs_check|ro '", poolDevice))
	})
	r.t.Logf("%s the pool of %s: %s", r.since(), node, out)
	return s.v.name + " on " + node, func() { r.repairPool(node) }
}

func (r *randomRun) repairPool(node string) {
	g := r.guest(node)
	require.NoError(r.t, g.Crash())
	ctx, cancel := context.WithTimeout(r.t.Context(), 10*time.Minute)
	defer cancel()
	r.must(g.Boot(ctx))
	r.must(r.prepare(ctx, g))
	r.mustExec(r.t, node, fmt.Sprintf(`set -e
lvchange -qq -y -ay vg/pool_tmeta; thin_check -q --clear-needs-check-flag /dev/mapper/vg-pool_tmeta; lvchange -qq -an vg/pool_tmeta
lvchange -qq -ay vg/pool; /run/lab/writer empty --path %s --from %d; lvchange -qq -an vg/pool`, poolDevice, fillerID))
	r.must(r.cluster.StartGuest(ctx, g.Index))
}
