package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/catalog"
)

// withPretended puts one layer in the place of all: it needs no time, and fails at seed 7.
func withPretended(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it builds a program")
	}
	was := layers
	t.Cleanup(func() { layers = was })
	layers = []layer{{name: catalog.Lab, program: "./testdata/pretended", share: 1, seeds: true, test: "^TestSeeds$",
		first: "-pretended.first", length: "-pretended.seeds", single: "-pretended.seed"}}
}

// do runs a campaign of the pretended layer.
func do(ctx context.Context, o options) (said string, err error) {
	var out bytes.Buffer
	o.layers = []string{"lab"}
	err = run(ctx, o, &out)
	return out.String(), err
}

func TestACampaignRunsSaysWhatFailedAndContinues(t *testing.T) {
	withPretended(t)
	dir := t.TempDir()
	said, err := do(t.Context(), options{total: time.Nanosecond, portion: time.Second, dir: dir})
	require.ErrorContains(t, err, "failed: lab:7")
	require.Contains(t, said, "make jepsen-replay SEED=lab:7")
	require.Contains(t, said, "lab 20 seeds")
	log, err := os.ReadFile(filepath.Join(dir, "logs", "lab-1.log"))
	require.NoError(t, err)
	require.Contains(t, string(log), "stamps went back")
	index, err := os.ReadFile(filepath.Join(dir, "reports", "index.html"))
	require.NoError(t, err)
	require.Contains(t, string(index), "TestSeeds")

	s, err := openState(dir, true)
	require.NoError(t, err)
	took := s.took()
	said, err = do(t.Context(), options{total: took + time.Nanosecond, portion: time.Nanosecond, dir: dir, resume: true})
	require.ErrorContains(t, err, "lab:7", "what failed before the interruption still fails the campaign")
	require.NotContains(t, said, "FAILED lab:")
	again, err := openState(dir, true)
	require.NoError(t, err)
	require.Greater(t, again.took(), took)
	require.Greater(t, again.Layers[catalog.Lab].Next, 21, "no seed is used twice")

	_, err = do(t.Context(), options{total: time.Nanosecond, portion: time.Second, dir: dir})
	require.NoError(t, err, "another campaign goes on with other seeds")
}

func TestAnInterruptedCampaignSaysSo(t *testing.T) {
	withPretended(t)
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "logs"), 0o700))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := &campaign{options: options{dir: dir, total: time.Hour}, out: new(bytes.Buffer)}
	var err error
	c.state, err = openState(dir, false)
	require.NoError(t, err)
	require.ErrorContains(t, c.conclude(ctx), "-resume")
}

func TestReplayRepeatsOneSeed(t *testing.T) {
	withPretended(t)
	dir := t.TempDir()
	said, err := do(t.Context(), options{replay: "lab:7", dir: dir})
	require.ErrorContains(t, err, "lab:7 failed")
	require.Contains(t, said, "stamps went back")
	_, err = do(t.Context(), options{replay: "lab:8", dir: dir})
	require.NoError(t, err)
	_, err = do(t.Context(), options{replay: "lab", dir: dir})
	require.ErrorContains(t, err, "as in sim:17")
	_, err = do(t.Context(), options{replay: "moon:1", dir: dir})
	require.ErrorContains(t, err, "no layer")
}

func TestTheLayerFurthestBehindItsShareIsNext(t *testing.T) {
	a, b := &layer{name: "a", share: 1}, &layer{name: "b", share: 3}
	c := &campaign{chosen: []*layer{a, b}, state: &state{Layers: map[catalog.Layer]*progress{"a": {Took: time.Minute}, "b": {Took: 2 * time.Minute}}}}
	require.Equal(t, b, c.next())
	c.state.of(b).Took = 4 * time.Minute
	require.Equal(t, a, c.next())
}
