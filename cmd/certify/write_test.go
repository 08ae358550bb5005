package certify

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/certify"
)

// fakePods write to volumes of a world.
type fakePods struct {
	*world

	mu        sync.Mutex
	said      map[int]uint64
	stands    bool // no pod acknowledges anything more
	readsLess uint64
	elsewhere []bool
	removed   int
	failed    error // of the readers
}

func (p *fakePods) Write(_ context.Context, _ certify.Run, n int, host string) (claim, volume string, err error) {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	volume = fmt.Sprint("pvc-", n)
	p.volumes = append(p.volumes, &adminpb.Volume{Id: "hf-" + volume, Name: volume, Replicas: []*adminpb.Replica{{Node: host}, {Node: "other"}}, Publications: []*adminpb.Publication{{Node: host}}})
	return "ns/claim", volume, nil
}

func (p *fakePods) Acknowledged(_ context.Context, _ certify.Run, n int) (certify.Acknowledged, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stands || p.said[n] == 0 {
		p.said[n]++
	}
	return certify.Acknowledged{Number: p.said[n], Longest: time.Second}, nil
}

func (p *fakePods) Stop(_ context.Context, _ certify.Run, n int) error {
	time.AfterFunc(10*time.Millisecond, func() { // it takes a moment until it is unpublished
		p.world.mu.Lock()
		defer p.world.mu.Unlock()
		for i, v := range p.volumes {
			if v.GetName() == fmt.Sprint("pvc-", n) {
				p.volumes[i] = &adminpb.Volume{Id: v.GetId(), Name: v.GetName()}
			}
		}
	})
	return nil
}

func (p *fakePods) Read(_ context.Context, _ certify.Run, n int, host string, elsewhere bool, acknowledged uint64) (string, certify.ReadBack, error) {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	for _, v := range p.volumes {
		if v.GetName() == fmt.Sprint("pvc-", n) && len(v.GetPublications()) > 0 {
			return "", certify.ReadBack{}, errors.New("a host has it still")
		}
	}
	p.elsewhere = append(p.elsewhere, elsewhere)
	return host, certify.ReadBack{Read: acknowledged - p.readsLess, Highest: acknowledged}, p.failed
}

func (p *fakePods) Remove(context.Context, certify.Run) error {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	p.removed, p.volumes = p.removed+1, nil
	return nil
}

func (p *fakePods) RemoveLeft(context.Context) error { return nil }

// writing is a runner with pods on two hosts.
func writing(t *testing.T) (*Runner, *fakePods, *certify.Plan) {
	t.Helper()
	before := patience
	patience = time.Second
	t.Cleanup(func() { patience = before })
	w := newWorld()
	r := w.runner(t, runA)
	pods := &fakePods{world: w, said: map[int]uint64{}}
	r.Pods = pods
	return r, pods, &certify.Plan{Writes: &certify.WritePlan{SizeBytes: 64 << 20, Hosts: []string{"n1", "n2"}, Replicated: true}}
}

func TestWhatPodsWroteIsReadBackWhenNobodyHasIt(t *testing.T) {
	r, pods, writes := writing(t)
	report := &certify.Report{}
	require.NoError(t, r.beginWrites(t.Context(), writes, plan))
	require.NoError(t, r.awaitWrites(t.Context(), plan))
	require.NoError(t, r.endWrites(t.Context(), report, writes, plan))
	require.Len(t, report.Writes, 2)
	for i, w := range report.Writes {
		require.True(t, w.Verified, w.Why)
		require.Equal(t, fmt.Sprint("hf-pvc-", i), w.Volume)
		require.EqualValues(t, 2, w.Number)
	}
	require.Equal(t, []bool{true, true}, pods.elsewhere, "of replicated volumes another host reads")
	require.NoError(t, r.removeWrites(t.Context(), plan))
	require.Equal(t, 1, pods.removed)
}

func TestAWriterThatStandsStillEndsTheDrill(t *testing.T) {
	r, pods, writes := writing(t)
	require.NoError(t, r.beginWrites(t.Context(), writes, plan))
	pods.stands = true
	require.ErrorContains(t, r.awaitWrites(t.Context(), plan), "host n1: wait for an acknowledged write: block 1 was the last")
}

func TestWhatIsNotReadBackIsNotVerified(t *testing.T) {
	for name, change := range map[string]func(*fakePods){
		"less is there":    func(p *fakePods) { p.readsLess = 1 },
		"no reader starts": func(p *fakePods) { p.failed = errors.New("unschedulable") },
	} {
		t.Run(name, func(t *testing.T) {
			r, pods, writes := writing(t)
			change(pods)
			report := &certify.Report{}
			require.NoError(t, r.beginWrites(t.Context(), writes, plan))
			err := r.endWrites(t.Context(), report, writes, plan)
			require.Equal(t, pods.failed != nil, err != nil)
			require.Len(t, report.Writes, 2)
			require.False(t, report.Writes[0].Verified)
			require.NotEmpty(t, report.Writes[0].Why)
		})
	}
}

func TestWithoutWritesNobodyIsAsked(t *testing.T) {
	r := newWorld().runner(t, runA)
	require.NoError(t, r.beginWrites(t.Context(), &certify.Plan{}, plan))
	require.NoError(t, r.awaitWrites(t.Context(), plan))
	require.NoError(t, r.endWrites(t.Context(), nil, &certify.Plan{}, plan))
	require.NoError(t, r.removeWrites(t.Context(), plan))
}
