package runbooks

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

const hostID = `--host-id ([0-9a-f-]{36})`

func (o *operations) create(name, node string) *harness.Volume {
	o.t.Helper()
	v, err := o.co.Create(o.t.Context(), harness.Spec{Name: name, Node: node})
	require.NoError(o.t, err)
	return v
}

// ask sends a call that nobody waits for: its operation stays.
func (o *operations) ask(call func(context.Context, csi.ControllerClient) error) {
	o.t.Helper()
	require.NoError(o.t, harness.Poll(o.t.Context(), harness.Patience, "the call to be taken", func() (bool, error) {
		client, err := o.Controller("c1")
		require.NoError(o.t, err)
		ctx, cancel := context.WithTimeout(o.t.Context(), time.Second)
		defer cancel()
		err = call(ctx, client)
		return err != nil && strings.Contains(o.must("operations"), "ing"), err
	}))
}

// must runs a command of the test's own.
func (o *operations) must(args ...string) string {
	o.t.Helper()
	res := o.Run(o.t.Context(), append(args, "--dir", o.Dir)...)
	require.Zero(o.t, res.Code, "%v: %s", args, res.Stderr)
	return res.Stdout
}

// row waits until the row of a node, a member or a volume in a listing contains a text.
func row(name, text string) func(string) bool {
	return func(out string) bool {
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, name+" ") && strings.Contains(line, text) {
				return true
			}
		}
		return false
	}
}

func (o *operations) awaitNode(node, text string) {
	o.t.Helper()
	require.NoError(o.t, harness.Poll(o.t.Context(), harness.Patience, node+" to be "+text, func() (bool, error) {
		return row(node, text)(o.must("nodes")), nil
	}))
}

func (o *operations) reboot(s *shell) {
	v := o.create("in-use", "n1")
	require.NoError(o.t, o.co.PublishStageBind(o.t.Context(), v, "n1"))
	s.set("NODE", "n1")
	out := s.run()
	require.Contains(o.t, out, v.ID)
	s.set("HOST_ID", s.find(out, hostID))
	require.NoError(o.t, o.co.UnbindUnstageUnpublish(o.t.Context(), v))
	require.NoError(o.t, o.co.Delete(o.t.Context(), v))
	s.run()
	s.run()
	require.True(o.t, row("n1", "maintenance")(o.must("nodes")))
	s.on("n1")
	s.run()
	s.retry(func(string) bool { return true })
	s.retry(func(out string) bool { return row("n1", "reachable ")(out) && !row("n1", "maintenance")(out) })
}

func (o *operations) endlessOperation(s *shell) {
	require.NoError(o.t, o.Kill(o.t.Context(), "n2"))
	spec := harness.Spec{Name: "stuck", Node: "n2"}
	o.ask(func(ctx context.Context, c csi.ControllerClient) error {
		_, err := c.CreateVolume(ctx, spec.CreateRequest())
		return err
	})
	listed := o.must("operations")
	s.set("OPERATION", s.find(listed, `(op-\d+) `))
	s.set("VOLUME", s.find(listed, `(hf-[0-9a-f-]+)`))
	s.set("UNWANTED", s.env["OPERATION"])
	s.set("FAILED", s.env["OPERATION"])
	require.Contains(o.t, s.run(), "n2")
	s.run()
	s.run()
	s.on("n2")
	s.run()
	s.retry(func(out string) bool { return !strings.Contains(out, "op-") })
	v := o.create("stuck", "n2") // what was cancelled is gone, and its name is free
	require.NoError(o.t, o.co.Delete(o.t.Context(), v))
}

func (o *operations) wrongDeletion(s *shell) {
	v := o.create("missed", "n2")
	require.NoError(o.t, o.co.PublishStageBind(o.t.Context(), v, "n2"))
	file := filepath.Join(v.Target, "letter")
	require.NoError(o.t, os.WriteFile(file, []byte("dear"), 0o600))
	require.NoError(o.t, o.co.UnbindUnstageUnpublish(o.t.Context(), v))
	snapshot, err := o.co.Snapshot(o.t.Context(), "before", v)
	require.NoError(o.t, err)
	require.NoError(o.t, o.Kill(o.t.Context(), "n2"))
	o.ask(func(ctx context.Context, c csi.ControllerClient) error {
		_, err := c.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: v.ID})
		return err
	})
	l, err := o.Layout()
	require.NoError(o.t, err)
	s.set("VOLUME", v.ID)
	s.set("POOL", l.Nodes[1].PoolDir)
	s.set("COPY", filepath.Join(o.t.TempDir(), "copy.img"))
	out := s.run()
	require.Contains(o.t, out, snapshot)
	require.Regexp(o.t, "(?i)delete", out)
	s.on("n2")
	s.run()
	s.retry(func(out string) bool { return !strings.Contains(out, v.ID) })
	disk, err := os.ReadFile(s.env["COPY"])
	require.NoError(o.t, err)
	require.Contains(o.t, string(disk), "dear")
	again, err := o.co.Restore(o.t.Context(), harness.Spec{Name: "found", Node: "n2"}, snapshot)
	require.NoError(o.t, err)
	require.NoError(o.t, o.co.Delete(o.t.Context(), again))
	require.NoError(o.t, o.co.DeleteSnapshot(o.t.Context(), snapshot))
}

func (o *operations) fullPool(s *shell) {
	v := o.create("in-a-full-pool", "n3")
	require.NoError(o.t, o.co.PublishStageBind(o.t.Context(), v, "n3"))
	node, err := o.Node("n3")
	require.NoError(o.t, err)
	look := func() { // the kubelet asks every minute; the host looks at its volumes as often by itself
		_, err := node.NodeGetVolumeStats(o.t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: v.ID, VolumePath: v.Target})
		require.NoError(o.t, err)
	}
	require.NoError(o.t, o.pool.Fill(200*harness.Mi))
	require.NoError(o.t, harness.Poll(o.t.Context(), patience, "the pool to be nearly full", func() (bool, error) {
		look()
		said := o.must("volumes") + o.must("nodes")
		return strings.Contains(said, "the pool of the volume is"), errors.New(said)
	}))
	s.set("NODE", "n3")
	s.set("POOL", o.pool.Root())
	s.set("FILE", filepath.Join(o.pool.Root(), "filler"))
	s.set("HOST_ID", s.find(s.run(), `(?m)^n3 .* ([0-9a-f-]{36}) `))
	s.run()
	require.True(o.t, row("n3", "drain")(o.must("nodes")) || row("n3", "cordon")(o.must("nodes")), o.must("nodes"))
	s.run()
	s.run()
	s.retry(func(out string) bool {
		look()
		return !strings.Contains(out, "the pool of the volume is") && row("n3", "reachable ")(out)
	})
	require.NoError(o.t, o.co.UnbindUnstageUnpublish(o.t.Context(), v))
	require.NoError(o.t, o.co.Delete(o.t.Context(), v))
}

func (o *operations) evictedHost(s *shell) {
	s.set("NODE", "n4")
	s.set("HOST_ID", s.find(s.run(), hostID))
	s.run()
	s.on("n4")
	s.run()
	s.retry(func(string) bool { return true }) // until no controller reaches it any more
	s.retry(row("n4", "lost"))
}

func (o *operations) deadHost(s *shell) {
	v := o.create("gone", "n3")
	require.NoError(o.t, o.Kill(o.t.Context(), "n3"))
	s.set("NODE", "n3")
	_, err := s.try(0)
	require.NoError(o.t, err)
	s.next++
	o.awaitNode("n3", "unreachable")
	out := s.run()
	require.Contains(o.t, out, v.ID)
	s.set("HOST_ID", s.find(out, hostID))
	s.run()
	require.NoError(o.t, o.co.Delete(o.t.Context(), v))
	s.retry(func(out string) bool { return row("n3", "lost")(out) && !strings.Contains(out, v.ID) })
}
