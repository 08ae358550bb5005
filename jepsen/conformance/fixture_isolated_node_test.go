package conformance

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// isolatedNodeArgs returns the arguments of a node with directories of its own that reaches no controller: it serves
// CSI, and the shared cluster does not know it. It uses the id of n1.
func (k *fixture) isolatedNodeArgs(further ...string) []string {
	k.t.Helper()
	dir := k.t.TempDir()
	pki := filepath.Join(k.env.Cluster.Dir, "pki", "node-n1", "node-n1")
	args := []string{"node", "--node-id=n1", "--data-dir=" + filepath.Join(dir, "data"), "--pool-dir=" + filepath.Join(dir, "pool"), "--pool-image=never",
		"--metrics-listen=127.0.0.1:0", "--csi-endpoint=unix://" + filepath.Join(dir, "n.sock"), "--allow-root=" + dir,
		"--cert=" + pki + ".crt", "--key=" + pki + ".key", "--ca=" + filepath.Join(filepath.Dir(pki), "ca.crt"), "--endpoints=127.0.0.1:9"}
	return append(args, further...)
}

// isolatedNode starts such a node, which ends with the row, and connects to it.
func (k *fixture) isolatedNode(further ...string) *grpc.ClientConn {
	k.t.Helper()
	path, err := builder.Path(k.ctx)
	require.NoError(k.t, err)
	args := k.isolatedNodeArgs(further...)
	cmd := exec.Command(path, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(k.t, cmd.Start())
	k.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(timeout, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		_ = cmd.Wait()
	})
	return k.dialIsolated(args)
}

func (k *fixture) dialIsolated(args []string) *grpc.ClientConn {
	k.t.Helper()
	var endpoint string
	for _, arg := range args {
		if socket, is := strings.CutPrefix(arg, "--csi-endpoint="); is {
			endpoint = socket
		}
	}
	require.NoError(k.t, harness.Poll(k.ctx, timeout, "the node's socket", func() (bool, error) {
		_, err := os.Stat(strings.TrimPrefix(endpoint, "unix://"))
		return err == nil, err
	}))
	conn, err := harness.Dial(endpoint)
	require.NoError(k.t, err)
	k.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// nodeHas is what a node advertises.
func (k *fixture) nodeHas(node csi.NodeClient) []csi.NodeServiceCapability_RPC_Type {
	k.t.Helper()
	res, err := node.NodeGetCapabilities(k.ctx, &csi.NodeGetCapabilitiesRequest{}, grpc.WaitForReady(true))
	require.NoError(k.t, err)
	var all []csi.NodeServiceCapability_RPC_Type
	for _, c := range res.GetCapabilities() {
		all = append(all, c.GetRpc().GetType())
	}
	return all
}

// fillFilesystem writes to a directory until nothing more fits, and syncs.
func fillFilesystem(ctx context.Context, dir string) error {
	piece := make([]byte, 256<<10)
	for i := 0; ctx.Err() == nil; i++ {
		err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("filler-%d", i)), piece, 0o600)
		if err != nil && len(piece) <= 4096 {
			return nil
		}
		if err != nil {
			piece = piece[:len(piece)/4]
		}
	}
	return ctx.Err()
}
