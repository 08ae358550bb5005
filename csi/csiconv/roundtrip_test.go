package csiconv

import (
	"errors"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
)

func reasonOf(err error) fsm.Reason {
	var rejection *fsm.Rejection
	_ = errors.As(err, &rejection)
	return rejection.Why()
}

func TestSourceThereAndBack(t *testing.T) {
	for name, from := range map[string]fsm.Source{
		"none": {}, "a snapshot": {Snapshot: "hs-1"}, "a volume": {Volume: "hf-1"},
	} {
		t.Run(name, func(t *testing.T) {
			read, err := ParseSource(ContentSource(from))
			require.NoError(t, err)
			require.Equal(t, from, fsm.SourceFrom(read))
		})
	}
	for name, given := range map[string]*csi.VolumeContentSource{
		"of no kind":       {},
		"without snapshot": {Type: &csi.VolumeContentSource_Snapshot{}},
		"without volume":   {Type: &csi.VolumeContentSource_Volume{}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseSource(given)
			require.Equal(t, fsm.Invalid, reasonOf(err))
		})
	}
}

// S3: a node reads the epoch that a controller wrote.
func TestPublishContextThereAndBack(t *testing.T) {
	for _, epoch := range []fsm.Epoch{{Incarnation: 1, Index: 1}, {Incarnation: 7, Index: 1 << 40}} {
		read, err := ParseContexts(nil, PublishContext(epoch))
		require.NoError(t, err)
		require.Equal(t, epoch, read)
	}
	read, err := ParseContexts(nil, nil)
	require.NoError(t, err)
	require.True(t, read.IsZero())
	_, err = ParseContexts(nil, map[string]string{EpochKey: "next"})
	require.Equal(t, fsm.Invalid, reasonOf(err))
	_, err = ParseContexts(map[string]string{"a": "b"}, PublishContext(fsm.Epoch{Incarnation: 1, Index: 1}))
	require.Equal(t, fsm.Invalid, reasonOf(err))
}

func TestTopologyThereAndBack(t *testing.T) {
	term := fsm.Topology{{Key: "p/a", Value: "1"}, {Key: "p/b", Value: "2"}}
	read, err := ParseTopology(Topology(term))
	require.NoError(t, err)
	require.Equal(t, term, read)
}
