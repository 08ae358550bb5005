package addons

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/addons/kubeapi"
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
	account string // directory of the pods' service account
	staging string // --stagingpath, where kubelets stage
	co      *harness.CO
}

// object is short for what is written of an object.
type object = kubeapi.Object

type fields = map[string]any

func startKubernetes(t *testing.T) *kubernetes {
	t.Helper()
	k := &kubernetes{Cluster: startCluster(t, token), account: t.TempDir()}
	k.co = k.View().NewCO()
	k.staging = filepath.Join(k.View().Mounts(), "kubelet")
	host := k.host(t, "kubernetes")
	listener, err := host.Listen(t.Context(), "tcp", host.Addr()+":6443")
	require.NoError(t, err)
	k.api, err = kubeapi.Serve(listener)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.api.Close()) })
	require.NoError(t, k.api.WriteAccount(k.account, namespace))
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

// inPod has a command see the service account, as the kubelet would mount it. All else of the host's files is as it is.
const inPod = `mount -t tmpfs none /run && mkdir -p /run/secrets/kubernetes.io && ln -s "$0" /run/secrets/kubernetes.io/serviceaccount && exec "$@"`

// command is a published program as a pod executes it.
func (k *kubernetes) command(t *testing.T, ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", inPod, k.account, programs.path(t, program)}, args...)...)
	address, port, _ := strings.Cut(k.api.Address(), ":")
	cmd.Env = append(os.Environ(), "KUBERNETES_SERVICE_HOST="+address, "KUBERNETES_SERVICE_PORT="+port)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// process is a published program that runs on.
type process struct {
	log  string        // path
	done chan struct{} // closed when it has ended
}

// run starts a program on a host until the test ends.
func (k *kubernetes) run(t *testing.T, host *netns.Host, program string, args ...string) *process {
	t.Helper()
	p := &process{log: filepath.Join(t.TempDir(), host.Name()+".log"), done: make(chan struct{})}
	log, err := os.Create(p.log)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := k.command(t, ctx, program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, errors.Join(host.Start(cmd), log.Close()))
	go func() { _ = cmd.Wait(); close(p.done) }()
	t.Cleanup(func() {
		cancel()
		<-p.done
		if t.Failed() {
			t.Logf("%s:\n%s", host.Name(), p.tail(t))
		}
	})
	return p
}

// tail is the end of what a program logged.
func (p *process) tail(t *testing.T) string {
	text, err := os.ReadFile(p.log)
	require.NoError(t, err)
	return string(text[max(0, len(text)-6000):])
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
	cmd := k.command(t, ctx, "csi-addons", append([]string{"-endpoint=" + k.socket(t, member), "-operation=" + operation}, args...)...)
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
