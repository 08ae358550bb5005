package addons

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/addons/kubeapi"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/addons/published"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/isolated"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/netns"
)

const (
	namespace = "storage" // of the pods
	driver    = "csi.holdfast.storage"
	token     = "of the tests alone" // of calls of CSI-Addons
)

// kubernetes is what the clients see of one cluster.
type kubernetes struct {
	*isolated.Cluster
	api     *kubeapi.Server
	account published.Account
	staging string // --stagingpath, where kubelets stage
	co      *harness.CO
}

// object is short for what is written of an object.
type object = kubeapi.Object

type fields = map[string]any

func startKubernetes(t *testing.T) *kubernetes {
	t.Helper()
	k := &kubernetes{Cluster: startCluster(t, token)}
	k.co = k.View().NewCO()
	k.staging = filepath.Join(k.View().Mounts(), "kubelet")
	host := k.host(t, "kubernetes")
	listener, err := host.Listen(t.Context(), "tcp", host.Addr()+":6443")
	require.NoError(t, err)
	k.api, err = kubeapi.Serve(listener)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.api.Close()) })
	k.account, err = published.NewAccount(k.api, t.TempDir(), namespace)
	require.NoError(t, err)
	k.create(t, kubeapi.Ref{Resource: "namespaces", Name: "shop"}, object{})
	for name, value := range map[string]string{"holdfast": token, "wrong": "another"} {
		k.create(t, kubeapi.Ref{Resource: "secrets", Namespace: namespace, Name: name}, object{"data": fields{"holdfastToken": []byte(value)}})
	}
	return k
}

func (k *kubernetes) host(t *testing.T, name string) *netns.Host {
	t.Helper()
	host, err := k.Net().Add(t.Context(), name)
	require.NoError(t, err)
	return host
}

func (k *kubernetes) create(t *testing.T, ref kubeapi.Ref, o object) object {
	t.Helper()
	made, err := k.api.Create(ref, o)
	require.NoError(t, err)
	return made
}

// await waits until an object is as the condition wants it.
func (k *kubernetes) await(t *testing.T, ref kubeapi.Ref, what string, holds func(object) bool) object {
	t.Helper()
	var o object
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, what, func() (ok bool, err error) {
		o, err = k.api.Get(ref)
		return err == nil && holds(o), errors.Join(err, describe(o))
	}))
	return o
}

// describe is what an object says of itself, as an error.
func describe(o object) error {
	return errors.New(strings.TrimSpace(o.Text("status", "result") + " " + o.Text("status", "state") + " " + o.Text("status", "message")))
}

// run starts a program on a host until the test ends.
func (k *kubernetes) run(t *testing.T, host *netns.Host, program string, args ...string) *published.Process {
	t.Helper()
	p, err := k.account.Start(host.Start, filepath.Join(t.TempDir(), host.Name()+".log"), path(t, program), args...)
	require.NoError(t, err)
	t.Cleanup(func() {
		p.Stop()
		if t.Failed() {
			t.Logf("%s:\n%s", host.Name(), p.Tail())
		}
	})
	return p
}

// result is how a program ended.
type result struct {
	code int
	text string // standard output and error
}

// tool runs one operation of csi-addons at a member's socket.
func (k *kubernetes) tool(t *testing.T, member, operation string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	cmd := k.account.Command(ctx, path(t, "csi-addons"), append([]string{"-endpoint=" + k.socket(t, member), "-operation=" + operation}, args...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, time.Second
	require.NoError(t, k.Net().Start(cmd))
	_ = cmd.Wait() // the code says it
	return result{cmd.ProcessState.ExitCode(), out.String()}
}

// socket is the CSI endpoint of a member.
func (k *kubernetes) socket(t *testing.T, member string) string {
	l, err := k.View().Layout()
	require.NoError(t, err)
	for _, c := range l.Controllers {
		if c.ID == member {
			return c.Endpoint
		}
	}
	for _, n := range l.Nodes {
		if n.ID == member {
			return n.Endpoint
		}
	}
	t.Fatalf("there is no member %s", member)
	return ""
}
