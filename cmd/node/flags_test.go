package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/fsm"
)

func TestByteSizesAreParsed(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "1073741824": 1 << 30, "1GiB": 1 << 30, "1.5 MiB": 3 << 19, "2TiB": 2 << 40, "4KiB": 4096} {
		var b bytesFlag
		for range 2 {
			require.NoError(t, b.Set(text))
			require.EqualValues(t, want, b, text)
		}
	}
	for _, text := range []string{"", "-1", "GiB", "1GB", "many", "9999999999TiB"} {
		require.Error(t, new(bytesFlag).Set(text), text)
	}
}

func TestInvalidFlagsAreRefused(t *testing.T) {
	good := options{endpoints: []string{"a:1"}, site: "A", dataDir: "/d", poolDir: "/p", overcommit: 20, poolImage: imageAuto, freezeMax: time.Second, healthInterval: time.Second, nodeTimeout: time.Second, koCount: 1}
	good.CSIEndpoint = "unix:///d/n.sock"
	require.NoError(t, good.check())
	for name, spoil := range map[string]func(*options){
		"no controllers":          func(o *options) { o.endpoints = nil },
		"a site that is none":     func(o *options) { o.site = "a b" },
		"no data folder":          func(o *options) { o.dataDir = "" },
		"nothing of the pool":     func(o *options) { o.overcommit = -1 },
		"no pool":                 func(o *options) { o.poolDir = "" },
		"a pool of what":          func(o *options) { o.pools = []string{"vg/pool"} },
		"a pool twice":            func(o *options) { o.pools = []string{"lvm:vg/pool", "lvm:vg/pool"} },
		"an address that is none": func(o *options) { o.replicationAddress = "host1" },
		"a handler from nowhere":  func(o *options) { o.replicationAddress, o.handler = "10.0.0.1", "holdfast" },
		"a fence of what":         func(o *options) { o.selfFence = "halt" },
		"a peer waited for ever":  func(o *options) { o.koCount = 0 },
		"no node timeout":         func(o *options) { o.nodeTimeout = 0 },
		"a label without value":   func(o *options) { o.labels = []string{"zone"} },
		"a freeze without an end": func(o *options) { o.freezeMax = time.Hour },
		"a freeze of no time":     func(o *options) { o.freezeMax = 0 },
		"restless health":         func(o *options) { o.healthInterval = time.Millisecond },
		"a label twice":           func(o *options) { o.labels = []string{"zone=a", "zone=b"} },
		"kubelet told nowhere":    func(o *options) { o.kubeletFlags.csiPath = "/k/csi.sock" },
		"kubelet told relatively": func(o *options) { o.kubeletFlags.registration = "reg.sock" },
		"kubelet told a hidden":   func(o *options) { o.kubeletFlags.registration = "/r/.reg.sock" },
		"kubelet told by CSI":     func(o *options) { o.kubeletFlags.registration = "/d/n.sock" },
		"CSI for kubelet where":   func(o *options) { o.kubeletFlags = kubeletFlags{registration: "/r/reg.sock", csiPath: "csi.sock"} },
		"CSI of kubelet where": func(o *options) {
			o.kubeletFlags.registration, o.CSIEndpoint = "/r/reg.sock", "unix://csi.sock"
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := good
			spoil(&o)
			require.Equal(t, exit.Usage, exit.Code(o.check()))
		})
	}
}

func TestLabelsAreSorted(t *testing.T) {
	o := options{labels: []string{"b=2", "a=1=1"}}
	got, err := o.topology()
	require.NoError(t, err)
	require.Equal(t, []fsm.Label{{Key: "a", Value: "1=1"}, {Key: "b", Value: "2"}}, got)
}
