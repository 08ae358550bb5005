package verbs

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/faultfs"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// enrolment is of hosts that join with a token each.
type enrolment struct {
	*operator
	wire  *wire
	files *fileVerbs
	hosts int
}

// host is one that joins; its certificate is in a folder whose filesystem counts what is changed.
type host struct {
	*enrolment
	role, name, token string
	tls               string
	args              []string
}

// TestAnEnrolmentGoesOnWhereItWasKilled: a controller and a node that join with a token are killed at each step of the call to the controller, and at
// each change of a name in the folder of their certificate. Started again by the same command, each has the certificate of its
// token, for the key that it made first, and the token was used once. Then both join.
func TestAnEnrolmentGoesOnWhereItWasKilled(t *testing.T) {
	e := newEnrolment(t)
	network, names := 0, 0
	for _, role := range []string{"node", "controller"} {
		drilled(t, []string{role})
		if *long || role == "node" {
			network = e.killedAtEach(role, func(h *host, step int) bool {
				halted := e.wire.arm(step)
				defer e.wire.arm(0)
				return h.killedAt(halted)
			})
		}
		if *long || role == "controller" {
			names = e.killedAtEach(role, func(h *host, step int) bool {
				held := e.files.fs.Inject(faultfs.Rule{Fault: faultfs.HangName, After: step - 1, Times: 1})
				defer held.End()
				return h.killedAt(hit(t, held))
			})
		}
	}
	require.Greater(t, network, 3)
	require.Greater(t, names, 3)
	t.Logf("the call has %d steps, and the folder about %d changes of names", network, names)
	e.joins("node", "nodes", `(?m)^%s .*reachable`)
	e.joins("controller", "members", `(?m)^%s .*follower`)
}

func newEnrolment(t *testing.T) *enrolment {
	t.Helper()
	listen, advertise := freeAddress(t), freeAddress(t)
	k := startEnrolling(t, harness.Options{Controllers: 1, Flags: []string{"--controller-arg=--enroll-advertise=" + advertise}}, listen)
	return &enrolment{operator: k.operator, wire: openWire(t, advertise, listen), files: newFileVerbs(t, k.binary)}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return l.Addr().String()
}

// newHost is one with a new token and no files.
func (e *enrolment) newHost(role string) *host {
	e.t.Helper()
	e.hosts++
	h := &host{enrolment: e, role: role, name: fmt.Sprintf("h%d", e.hosts)}
	h.token = strings.TrimSpace(e.ask("tokens", "create", "--role", role, "--name", h.name, "--yes"))
	h.tls = filepath.Join(e.files.at, h.name)
	dir := filepath.Join(e.Base, h.name)
	require.NoError(e.t, os.MkdirAll(dir, 0o700))
	h.args = []string{role, "--tls-dir", h.tls, "--data-dir", filepath.Join(dir, "data"), "--metrics-listen", "127.0.0.1:0",
		"--csi-endpoint", "unix://" + filepath.Join(dir, "csi.sock")}
	if role == "node" {
		h.args = append(h.args, "--pool-dir", filepath.Join(dir, "pool"), "--pool-image", "never", "--allow-root", e.Mounts())
	} else {
		h.args = append(h.args, "--api-listen", "127.0.0.1:0", "--raft-listen", freeAddress(e.t))
	}
	return h
}

// killedAtEach kills a host at the first step, another one at the next, and so on until one gets its certificate unharmed. It
// returns how many steps there were. The short form kills at one in three, as controllers answer five enrolments in a second.
func (e *enrolment) killedAtEach(role string, kill func(*host, int) bool) int {
	e.t.Helper()
	every := 3
	if *long {
		every = 1
	}
	for step := 1; ; step += every {
		h := e.newHost(role)
		killed := kill(h, step)
		key, _ := os.ReadFile(filepath.Join(h.tls, "tls.key"))
		h.enrols()
		again, err := os.ReadFile(filepath.Join(h.tls, "tls.key"))
		require.NoError(e.t, err)
		require.True(e.t, key == nil || bytes.Equal(key, again), "it made another key")
		if !killed {
			return step - 1
		}
	}
}

// start starts the daemon; its output is kept.
func (h *host) start() *exec.Cmd {
	h.t.Helper()
	log, err := os.OpenFile(filepath.Join(h.Base, "joined.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(h.t, err)
	cmd := exec.Command(h.binary, h.args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "HOLDFAST_JOIN_TOKEN="+h.token)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	require.NoError(h.t, cmd.Start())
	require.NoError(h.t, log.Close())
	h.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd
}

// killedAt kills the host when the channel is closed, and tells whether it came to that. One that did not has its certificate.
func (h *host) killedAt(halted <-chan struct{}) (killed bool) {
	h.t.Helper()
	cmd, ended := h.run()
	for !killed && !h.hasCertificate() {
		select {
		case <-halted:
			killed = true
		case <-ended: // it was told to ask again later
			cmd, ended = h.run()
		case <-time.After(5 * time.Millisecond):
			require.NoError(h.t, h.t.Context().Err())
		}
	}
	_ = cmd.Process.Kill() // it may have ended by itself just now
	h.files.fs.Heal()      // what hangs in the kernel ends first
	<-ended
	require.False(h.t, cmd.ProcessState.Success(), "it was killed")
	return killed
}

// hasCertificate looks past the filesystem that hangs.
func (h *host) hasCertificate() bool {
	_, err := os.Stat(filepath.Join(h.files.live, h.name, "tls.crt"))
	return err == nil
}

// enrols starts the host again by the same command until it has its certificate.
func (h *host) enrols() {
	h.t.Helper()
	h.supervised("the certificate of "+h.name, h.hasCertificate)
	pair, err := tls.LoadX509KeyPair(filepath.Join(h.tls, "tls.crt"), filepath.Join(h.tls, "tls.key"))
	require.NoError(h.t, err)
	require.Contains(h.t, fmt.Sprint(pair.Leaf.Subject, pair.Leaf.URIs), h.name)
	list := regexp.MustCompile(`(?m)^.*\b`+h.name+`\b.*$`).FindAllString(h.ask("tokens"), -1)
	require.Len(h.t, list, 1)
	require.Contains(h.t, list[0], "used")
}

// joins has a host be killed once it has its certificate, and join by the same command.
func (e *enrolment) joins(role, list, row string) {
	e.t.Helper()
	h := e.newHost(role)
	h.enrols()
	joined := regexp.MustCompile(fmt.Sprintf(row, h.name))
	h.supervised(h.name+" to join", func() bool { return joined.MatchString(e.ask(list)) })
}

// supervised runs the same command, again where it ended by itself as a supervisor does, until that is so; then it is killed.
func (h *host) supervised(what string, isSo func() bool) {
	h.t.Helper()
	cmd, ended := h.run()
	err := harness.Poll(h.t.Context(), harness.Patience, what, func() (bool, error) {
		select {
		case <-ended:
			cmd, ended = h.run()
		default:
		}
		return isSo(), nil
	})
	if err != nil {
		said, _ := os.ReadFile(filepath.Join(h.Base, "joined.log"))
		h.t.Logf("what the hosts said:\n%s", said)
	}
	require.NoError(h.t, err)
	_ = cmd.Process.Kill() // it may have ended by itself just now
	<-ended
	require.False(h.t, cmd.ProcessState.Success())
}

// run starts the daemon; the channel is closed when it has ended, and says in its log why.
func (h *host) run() (*exec.Cmd, <-chan struct{}) {
	cmd, ended := h.start(), make(chan struct{})
	go func() {
		_ = cmd.Wait() // its state has it
		close(ended)
	}()
	return cmd, ended
}

// hit is closed when an injection was met.
func hit(t *testing.T, held *faultfs.Injection) <-chan struct{} {
	met := make(chan struct{})
	go func() {
		for ; t.Context().Err() == nil; time.Sleep(time.Millisecond) {
			if held.Hits() > 0 {
				close(met)
				return
			}
		}
	}()
	return met
}
