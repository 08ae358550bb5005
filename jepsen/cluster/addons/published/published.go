// Package published has the published clients of CSI-Addons, the tool, the sidecar and the manager of
// kubernetes-csi-addons, built as they are published and run as pods are: with the service account of a stand-in of the
// Kubernetes API.
package published

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/addons/kubeapi"
	"github.com/holdfast-storage/holdfast/jepsen/mountns"
)

const module = "github.com/csi-addons/kubernetes-csi-addons"

// Programs are the programs, built when one is first asked for.
type Programs struct {
	// Dir is where jepsen/csiaddons is, whose go.mod pins their release.
	Dir  string
	once sync.Once
	to   string
	err  error
}

// Path is where a program is: csi-addons, sidecar or manager.
func (p *Programs) Path(name string) (string, error) {
	p.once.Do(p.build)
	return filepath.Join(p.to, name), p.err
}

func (p *Programs) build() {
	if p.to, p.err = os.MkdirTemp("", "holdfast-clients-"); p.err != nil {
		return
	}
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", p.to, module+"/cmd/csi-addons", module+"/cmd/manager", module+"/sidecar")
	cmd.Dir = p.Dir
	if out, err := cmd.CombinedOutput(); err != nil {
		p.err = fmt.Errorf("build the published clients: %w: %s", err, out)
	}
}

// Close removes what was built.
func (p *Programs) Close() error {
	if p.to == "" {
		return nil
	}
	return os.RemoveAll(p.to)
}

// Account is a service account: the stand-in that pods find, and the directory with what they are given of it.
type Account struct {
	API *kubeapi.Server
	Dir string
}

// NewAccount writes the account of a namespace into a directory.
func NewAccount(api *kubeapi.Server, dir, namespace string) (Account, error) {
	if err := api.WriteAccount(dir, namespace); err != nil {
		return Account{}, fmt.Errorf("write a service account of %s: %w", namespace, err)
	}
	return Account{API: api, Dir: dir}, nil
}

// inPod has a command see the service account, as the kubelet would mount it. All else of the host's files is as it is.
const inPod = `mount -t tmpfs none /run && mkdir -p /run/secrets/kubernetes.io && ln -s "$0" /run/secrets/kubernetes.io/serviceaccount && exec "$@"`

// Command is a program as a pod with the account executes it. It ends with the thread that starts it.
func (a Account) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", inPod, a.Dir, program}, args...)...)
	address, port, _ := strings.Cut(a.API.Address(), ":")
	cmd.Env = append(os.Environ(), "KUBERNETES_SERVICE_HOST="+address, "KUBERNETES_SERVICE_PORT="+port)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	mountns.New(cmd)
	return cmd
}

// Process is a program that runs on.
type Process struct {
	// Done is closed when it has ended.
	Done   chan struct{}
	log    string
	cancel context.CancelFunc
}

// Start starts a program until Stop; start is what starts a command, and its output goes to the file log.
func (a Account) Start(start func(*exec.Cmd) error, log, program string, args ...string) (*Process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := a.Command(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := errors.Join(start(cmd), out.Close()); err != nil {
		cancel()
		return nil, fmt.Errorf("start %s: %w", filepath.Base(program), err)
	}
	p := &Process{Done: make(chan struct{}), log: log, cancel: cancel}
	go func() { _ = cmd.Wait(); close(p.Done) }() // that it has ended is what is asked for
	return p, nil
}

// Stop ends it.
func (p *Process) Stop() {
	p.cancel()
	<-p.Done
}

// tailBytes is how much of a log is shown.
const tailBytes = 6000

// Tail is the end of what it logged.
func (p *Process) Tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-tailBytes):])
}
