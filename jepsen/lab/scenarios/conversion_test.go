package scenarios

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// newPlain makes a raw volume of one replica at a site, which nobody replicates yet.
func newPlain(t *testing.T, a, b *site, name string, size int64) *relation {
	t.Helper()
	r := unclaimed(a, b)
	r.w.count++
	v := &volume{name: fmt.Sprintf("%s-%d", name, r.w.count), size: size, block: true}
	require.NoError(t, a.create(t.Context(), v, nil, map[string]string{"site": a.name}))
	r.volumes[a], r.source = []*volume{v}, sourceOfVolume(v.id)
	return r
}

// fillPlain writes content, stamps before it, and answers the checksum of what is behind the ring.
func (r *relation) fillPlain(t *testing.T, s *site) string {
	t.Helper()
	r.use(t, s)
	v := r.volumes[s][0]
	node := s.host(t, v)
	r.w.mustExec(t, node, fmt.Sprintf("dd if=/dev/urandom of=%s bs=1M seek=8 count=%d oflag=direct 2>/dev/null", v.target(), v.size/mi-8))
	sum := r.w.fileSum(t, node, v.path(), 8*mi, v.size-8*mi)
	r.end(t, s)
	return sum
}

// fileSum is the checksum of a part of a device.
func (w *env) fileSum(t *testing.T, node, path string, from, bytes int64) string {
	t.Helper()
	return strings.TrimSpace(w.mustExec(t, node, fmt.Sprintf("dd if=%s bs=1M skip=%d count=%d iflag=direct 2>/dev/null | sha256sum", path, from/mi, bytes/mi)))
}

// learnCopy waits until the volume has a replica at the other site, and has its orchestrator know it.
func (r *relation) learnCopy(t *testing.T, a, b *site) {
	t.Helper()
	v := r.volumes[a][0]
	eventually(t, timeout, v.name+" has a second replica", func(ctx context.Context) error {
		s, err := r.w.logState(ctx, v)
		if err == nil && len(s.Replicas) < 2 {
			err = fmt.Errorf("it has %+v", s.Replicas)
		}
		if err == nil {
			v.hosts = []string{s.Replicas[0].Node, s.Replicas[1].Node}
		}
		return err
	})
	copied := *v
	copied.name += "-copied"
	r.volumes[b] = []*volume{&copied}
}

// A plain volume with content is replicated: its content stays what it was, is copied, and is used at the other site
// (S55).
func TestS38_S55_APlainVolumeIsConverted(t *testing.T) {
	w, a, b := newSites(t)
	r := newPlain(t, a, b, "plain", 64*mi)
	before := r.fillPlain(t, a)
	v := r.volumes[a][0]
	called := time.Now()
	require.NoError(t, r.enable(t.Context(), a))
	t.Logf("converted after %s", time.Since(called).Round(time.Millisecond))
	r.learnCopy(t, a, b)
	r.claim(t)
	t.Logf("copied after %s", time.Since(called).Round(time.Millisecond))
	for _, node := range v.hosts {
		require.Equal(t, before, w.fileSum(t, node, "/dev/mapper/"+v.device(), 8*mi, v.size-8*mi), "on "+node)
	}
	r.use(t, a)
	r.relocate(t, a, b)
	require.Equal(t, before, w.fileSum(t, b.host(t, r.volumes[b][0]), r.volumes[b][0].path(), 8*mi, v.size-8*mi))
	r.relocate(t, b, a)
	r.end(t, a)
	r.judge(t)
	r.remove(t, a)
}

// A conversion that cannot be finished is undone: the volume is what it was, and is used (S55).
func TestS38_S55_AConversionIsUndone(t *testing.T) {
	w, a, b := newSites(t)
	r := newPlain(t, a, b, "undone", 64*mi)
	before := r.fillPlain(t, a)
	v := r.volumes[a][0]
	node := a.host(t, v)
	bytes := w.deviceBytes(t, node, v)
	a.cutOff(t, lab.Replication)
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	err := r.enable(ctx, a)
	cancel()
	require.Error(t, err, "its content cannot be copied")
	r.learnCopy(t, a, b)
	w.awaitKernel(t, v, node, timeout, "it was converted", func(d drbdState) bool { return d.disk != "" })
	require.NoError(t, r.disable(t.Context(), a))
	w.reconnect(t)
	r.awaitPlain(t, a)
	require.Equal(t, bytes, w.deviceBytes(t, node, v), "the device is as large as it was")
	require.Equal(t, before, w.fileSum(t, node, "/dev/mapper/"+v.device(), 8*mi, v.size-8*mi))
	v.hosts = []string{node}
	r.use(t, a)
	r.end(t, a)
	r.requireRefused(t, a, true, codes.FailedPrecondition)
	w.awaitCleanAudit(t)
	require.NoError(t, a.delete(t.Context(), v))
}

// awaitPlain waits until nothing of the replication is left on either host.
func (r *relation) awaitPlain(t *testing.T, s *site) {
	t.Helper()
	v := r.volumes[s][0]
	eventually(t, timeout, v.name+" is plain again", func(ctx context.Context) error {
		for _, node := range v.hosts {
			if minor, err := r.w.configuredMinor(ctx, v, node); err != nil || minor != "" {
				return fmt.Errorf("on %s it has minor %q: %w", node, minor, err)
			}
		}
		found, err := r.w.logState(ctx, v)
		if err == nil && len(found.Replicas) != 1 {
			err = fmt.Errorf("it has %+v", found.Replicas)
		}
		return err
	})
}

// deviceBytes is the size of the volume's own device.
func (w *env) deviceBytes(t *testing.T, node string, v *volume) string {
	t.Helper()
	return strings.TrimSpace(w.mustExec(t, node, fmt.Sprintf("lvs --noheadings --units b --nosuffix -o lv_size vg/%s", v.id)))
}
