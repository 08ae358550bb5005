package conformance

import (
	"crypto/tls"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/jepsen/mountns"
)

var processRows = map[string]rowTest{
	"CSI-GEN-Svc-01": rowOf(func(k *fixture) {
		for _, id := range []string{"n1", "n2"} {
			info, err := csi.NewNodeClient(k.env.Conn(k.t, id)).NodeGetInfo(k.ctx, &csi.NodeGetInfoRequest{})
			require.NoError(k.t, err)
			require.Equal(k.t, id, info.GetNodeId())
		}
	}),
	"CSI-GEN-Svc-02": rowOf(identityEverywhere),
	"CSI-OPS-Conn-01": rowOf(func(k *fixture) {
		identityEverywhere(k)
		p := k.standaloneController()
		p.start()
		p.awaitProbe(true)
		_, err := csi.NewIdentityClient(p.conn()).GetPluginInfo(k.ctx, &csi.GetPluginInfoRequest{})
		require.NoError(k.t, err)
	}),
	"CSI-GEN-Svc-03":  rowOf(func(k *fixture) { k.serves("c1", "Controller") }),
	"CSI-GEN-Svc-04":  rowOf(func(k *fixture) { k.serves("n1", "Node") }),
	"CSI-OPS-Conn-04": rowOf(func(k *fixture) { k.serves("c1", ofControllers...); k.serves("n1", ofNodes...) }),
	"CSI-GEN-Svc-05": rowOf(func(k *fixture) {
		require.EqualValues(k.t, "csi.v1", csi.File_csi_proto.Package())
		k.serves("c1", ofControllers...) // by the published names
		err := k.env.Conn(k.t, "c1").Invoke(k.ctx, "/csi.v0.Identity/Probe", &csi.ProbeRequest{}, &csi.ProbeResponse{})
		k.requireCode("a service of another name", err, codes.Unimplemented)
	}),
	"CSI-GEN-Svc-06": rowOf(func(k *fixture) {
		require.Equal(k.t, "proto3", csi.File_csi_proto.Syntax().String())
		_, err := k.identity("c1").Probe(k.ctx, &csi.ProbeRequest{}) // the messages of that file are understood
		require.NoError(k.t, err)
	}),

	"CSI-OPS-Conn-02": started("unix://%s"),
	"CSI-OPS-Conf-01": started("unix://%s"),
	"CSI-OPS-Env-02": func(t *testing.T, w *Env) {
		for _, form := range []string{"unix://%s", "unix:%s", "%s"} {
			started(form)(t, w)
		}
	},
	"CSI-OPS-Conn-03": badEndpoint("tcp://127.0.0.1:1", "unix"),
	"CSI-OPS-Env-03":  badEndpoint("unix://DIR/no-suffix", ".sock"),
	"CSI-OPS-Env-04": func(t *testing.T, w *Env) {
		badEndpoint("", "CSI_ENDPOINT")(t, w)
		rowOf(func(k *fixture) {
			p := k.newProcess()
			p.cmd.Args = append(p.cmd.Args, "node", "--endpoints", "127.0.0.1:1")
			p.cmd.Env = p.cmd.Env[1:]
			p.start()
			require.NotZero(k.t, p.awaitExit())
			require.Contains(k.t, p.output(), "CSI_ENDPOINT")
		})(t, w)
	},
	"CSI-OPS-Env-05": rowOf(func(k *fixture) {
		p := k.standaloneController()
		p.start()
		p.awaitProbe(true)
		p.kill()
		require.FileExists(k.t, strings.TrimPrefix(p.endpoint, "unix://"), "a crash leaves its socket")
		p.reset()
		p.start()
		p.awaitProbe(true)
	}),
	"CSI-OPS-FS-02": rowOf(func(k *fixture) {
		p := k.standaloneController()
		p.start()
		p.awaitProbe(true)
		only := func() {
			entries, err := os.ReadDir(filepath.Join(p.dir, "run"))
			require.NoError(k.t, err)
			require.Len(k.t, entries, 1)
			require.Equal(k.t, fs.ModeSocket, entries[0].Type())
		}
		only()
		p.kill()
		only()
	}),
	"CSI-OPS-FS-01": rowOf(func(k *fixture) {
		p := k.jailed(k.standaloneController())
		p.start()
		p.awaitProbe(true)
	}),
	"CSI-OPS-Life-01": rowOf(func(k *fixture) {
		p := k.jailed(k.newProcess())
		p.cmd.Args = append(p.cmd.Args, "controller", "--bootstrap", "--cert", "/certs/cert", "--key", "/certs/key", "--ca", "/certs/ca")
		p.cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET // its default ports are its own
		p.start()
		p.awaitProbe(true)
	}),
	"CSI-OPS-Oper-08": rowOf(func(k *fixture) {
		p := k.standaloneController()
		p.cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
		mountns.New(p.cmd)
		p.start()
		p.awaitProbe(true)
	}),
	"CSI-OPS-Oper-01": rowOf(func(k *fixture) {
		p := k.standaloneController()
		p.start()
		conn := p.conn()
		p.awaitProbe(true)
		require.NoError(k.t, conn.Close())
		select {
		case <-p.ended:
			require.Fail(k.t, "it ended with its client", p.output())
		case <-time.After(300 * time.Millisecond):
		}
		p.awaitProbe(true)
	}),
	"CSI-OPS-Oper-02": rowOf(func(k *fixture) {
		p := k.standaloneController("--log-level", "debug")
		p.start()
		p.awaitProbe(true)
		line := regexp.MustCompile(`msg="([^"]{20,})"`).FindStringSubmatch(p.output())
		require.NotNil(k.t, line, "nothing was said on standard error: %s", p.output())
		require.NoError(k.t, filepath.WalkDir(filepath.Join(p.dir, "data"), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return ignoreMissing(err)
			}
			raw, err := os.ReadFile(path)
			require.NotContains(k.t, string(raw), line[1], "a log is in %s", path)
			return ignoreMissing(err)
		}))
	}),
	"CSI-OPS-Oper-05": rowOf(func(k *fixture) {
		p := k.newProcess()
		p.start() // without a mode
		p.awaitExit()
		require.NoFileExists(k.t, strings.TrimPrefix(p.endpoint, "unix://"))
		for at, others := range map[string][]string{"c1": {"Node"}, "n1": {"Controller", "GroupController", "SnapshotMetadata"}} {
			for method, req := range methodsOf(k.t, others...) {
				_, _, err := k.callMethod(k.env.Conn(k.t, at), method, req)
				k.requireCode(method+" at "+at, err, codes.Unimplemented)
			}
		}
	}),
	"CSI-OPS-Oper-06": rowOf(func(k *fixture) {
		for what, args := range map[string][]string{
			"a mode that is none":       {"sidecar"},
			"an endpoint that is none":  {"controller", "--csi-endpoint", "tcp://127.0.0.1:1"},
			"a folder that is none":     {"controller", "--data-dir", "/dev/null/x", "--bootstrap", "--cert", "certs/cert", "--key", "certs/key", "--ca", "certs/ca"},
			"a certificate that is not": {"controller", "--cert", "/nonexistent", "--key", "/nonexistent", "--ca", "/nonexistent"},
		} {
			p := k.newProcess()
			p.cmd.Args = append(p.cmd.Args, args...)
			p.start()
			require.NotZero(k.t, p.awaitExit(), what)
			require.NotEmpty(k.t, p.output(), what)
		}
	}),
	"CSI-OPS-Oper-07": func(t *testing.T, w *Env) {
		documented("## Linux capabilities", "CAP_SYS_ADMIN")(t, w)
		rowOf(func(k *fixture) { // a controller needs none
			p := k.standaloneController()
			require.NoError(k.t, filepath.WalkDir(p.dir, func(path string, _ fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				return os.Chown(path, 65534, 65534)
			}))
			p.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
			p.start()
			p.awaitProbe(true)
		})(t, w)
	},
	"CSI-OPS-Oper-09": documented("## Resources", "MiB", "core", "GiB"),
	"CSI-OPS-Oper-10": rowOf(func(k *fixture) {
		group := filepath.Join("/sys/fs/cgroup/memory", filepath.Base(k.env.Path("holdfast-row")))
		if err := os.Mkdir(group, 0o755); err != nil {
			k.t.Skip("skipped: needs memory control groups: " + err.Error())
		}
		k.t.Cleanup(func() { require.NoError(k.t, os.Remove(group)) })
		require.NoError(k.t, os.WriteFile(filepath.Join(group, "memory.limit_in_bytes"), []byte("268435456"), 0o600))
		p := k.standaloneController()
		enter := fmt.Sprintf("echo $$ > %s/cgroup.procs && exec \"$0\" \"$@\"", group)
		p.cmd.Args = append([]string{"sh", "-c", enter}, p.cmd.Args...)
		p.cmd.Path = "/bin/sh"
		p.start()
		p.awaitProbe(true)
		ctl := csi.NewControllerClient(p.conn())
		for range 200 {
			_, err := ctl.CreateVolume(k.ctx, harness.Spec{Name: k.env.Name("pressed")}.CreateRequest())
			k.requireCode("CreateVolume without a node", err, codes.ResourceExhausted, codes.Aborted)
		}
		p.kill()
	}),
	"CSI-GEN-Secrets-03": documented("## Secrets", "`encryptionPassphrase`", "`previousEncryptionPassphrase`", "`holdfastToken`"),
	"CSI-GEN-Secrets-04": documented("## Secrets", "no key has two meanings"),

	"CSI-OPS-Env-01": rowOf(func(k *fixture) {
		raw, err := os.ReadFile(filepath.Join(k.newProcess().dir, "holdfast"))
		require.NoError(k.t, err)
		for _, name := range regexp.MustCompile(`CSI_[A-Z]{3,}`).FindAll(raw, -1) {
			require.Equal(k.t, "CSI_ENDPOINT", string(name))
		}
		for _, command := range []string{"controller", "node"} {
			require.NotContains(k.t, strings.ReplaceAll(k.env.Cluster.Run(k.ctx, command, "--help").Stdout, "CSI_ENDPOINT", ""), "CSI_")
		}
	}),
	"CSI-OPS-Conf-02": rowOf(everyFlagHasAVariable),
	"CSI-OPS-Sec-01": rowOf(func(k *fixture) {
		leader, err := k.env.Cluster.Leader(k.ctx)
		require.NoError(k.t, err)
		for _, id := range everyone[:3] {
			if id == leader {
				continue
			}
			res, err := csi.NewControllerClient(k.env.Conn(k.t, id)).CreateVolume(k.ctx, harness.Spec{Name: k.env.Name("vol"), Node: "n1"}.CreateRequest())
			require.NoError(k.t, err, "a follower's socket")
			k.deleteVolumeLater(res.GetVolume().GetVolumeId())
		}
	}),
	"CSI-OPS-Sec-02": rowOf(func(k *fixture) {
		n := 0
		k.listeners(func(id, address string) {
			if strings.HasSuffix(address, k.metricsPort(id)) {
				return // plain HTTP by design, and no member's link
			}
			n++
			raw, err := tls.DialWithDialer(&net.Dialer{Timeout: timeout}, "tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
			if err == nil {
				_, err = raw.Read(make([]byte, 64)) // TLS 1.3 reports the missing certificate at the first read
				_ = raw.Close()
			}
			require.ErrorContains(k.t, err, "tls", "%s takes a caller without a certificate", address)
			plain, err := net.DialTimeout("tcp", address, timeout)
			require.NoError(k.t, err)
			defer plain.Close()
			_, _ = plain.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
			require.NoError(k.t, plain.SetReadDeadline(time.Now().Add(2*time.Second)))
			answer := make([]byte, 64)
			got, _ := plain.Read(answer)
			require.True(k.t, got == 0 || answer[0] == 21, "%s talks plainly: %q", address, answer[:got]) // at most a TLS alert
		})
		require.GreaterOrEqual(k.t, n, 6)
	}),
	"CSI-OPS-Sec-04": rowOf(func(k *fixture) {
		n := 0
		k.listeners(func(id, address string) {
			for _, with := range []credentials.TransportCredentials{insecure.NewCredentials(), credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})} {
				conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(with))
				require.NoError(k.t, err)
				_, err = csi.NewIdentityClient(conn).Probe(k.ctx, &csi.ProbeRequest{})
				require.Error(k.t, err, "%s serves CSI at %s", id, address)
				_ = conn.Close()
			}
			n++
		})
		require.GreaterOrEqual(k.t, n, 9)
		l, err := k.env.Cluster.Layout()
		require.NoError(k.t, err)
		for _, id := range everyone {
			require.True(k.t, strings.HasPrefix(endpointPath(l, id), "unix://"))
		}
	}),
}

func identityEverywhere(k *fixture) {
	for _, id := range everyone {
		for method, req := range methodsOf(k.t, "Identity") {
			_, _, err := k.callMethod(k.env.Conn(k.t, id), method, req)
			require.NoError(k.t, err, "%s at %s", method, id)
		}
	}
}

// serves requires that a process knows every method of services.
func (k *fixture) serves(id string, services ...string) {
	k.t.Helper()
	conn := k.env.Conn(k.t, id)
	for method, req := range methodsOf(k.t, services...) {
		_, _, err := k.callMethod(conn, method, req)
		k.requireCode(method+" at "+id, err, codes.OK, codes.InvalidArgument)
	}
}

// started makes a row of a form of CSI_ENDPOINT, which comes from the environment alone.
func started(form string) rowTest {
	return rowOf(func(k *fixture) {
		p := k.standaloneController()
		path := strings.TrimPrefix(p.endpoint, "unix://")
		p.cmd.Env[0] = "CSI_ENDPOINT=" + fmt.Sprintf(form, path)
		p.start()
		p.awaitProbe(true)
		info, err := os.Stat(path)
		require.NoError(k.t, err)
		require.Equal(k.t, fs.ModeSocket, info.Mode().Type())
	})
}

// badEndpoint makes a row of a CSI_ENDPOINT with which no process starts; DIR stands
// for the row's directory.
func badEndpoint(endpoint, says string) rowTest {
	return rowOf(func(k *fixture) {
		p := k.standaloneController()
		p.cmd.Env[0] = "CSI_ENDPOINT=" + strings.ReplaceAll(endpoint, "DIR", p.dir)
		if endpoint == "" {
			p.cmd.Env = p.cmd.Env[1:]
		}
		p.start()
		require.NotZero(k.t, p.awaitExit())
		require.Contains(k.t, p.output(), says)
	})
}

// documented makes a row of a section of the operators' page.
func documented(heading string, words ...string) rowTest {
	return func(t *testing.T, _ *Env) {
		raw, err := os.ReadFile("../../deploy/OPERATIONS.md")
		require.NoError(t, err)
		_, section, found := strings.Cut(string(raw), heading+"\n")
		require.True(t, found, "there is no section %q", heading)
		section, _, _ = strings.Cut(section, "\n## ")
		for _, word := range words {
			require.Contains(t, section, word)
		}
	}
}

// jailed makes a process see only its own directory.
func (k *fixture) jailed(p *process) *process {
	k.t.Helper()
	out, err := exec.CommandContext(k.ctx, "ldd", filepath.Join(p.dir, "holdfast")).CombinedOutput()
	if err == nil { // linked dynamically: its libraries are part of it
		for _, library := range regexp.MustCompile(`/\S+\.so\S*`).FindAllString(string(out), -1) {
			require.NoError(k.t, os.MkdirAll(filepath.Join(p.dir, filepath.Dir(library)), 0o755))
			copyFile(k, library, filepath.Join(p.dir, library), 0o755)
		}
	}
	for i, arg := range p.cmd.Args {
		p.cmd.Args[i] = strings.Replace(arg, p.dir, "", 1)
	}
	p.cmd.Path, p.cmd.Dir = "/holdfast", "/"
	p.cmd.Env = []string{"CSI_ENDPOINT=unix:///run/csi.sock"}
	p.cmd.SysProcAttr.Chroot = p.dir
	return p
}

// everyFlagHasAVariable sets nonsense by the environment: it must be noticed, by the variable's name.
func everyFlagHasAVariable(k *fixture) {
	for _, command := range []string{"controller", "node"} {
		help := k.env.Cluster.Run(k.ctx, command, "--help").Stdout
		typed := regexp.MustCompile(`--([a-z][a-z-]+) (duration|uint|uint32|int|float|bytes|entries)\b`).FindAllStringSubmatch(help, -1)
		require.NotEmpty(k.t, typed, help)
		for _, flag := range typed {
			name := "HOLDFAST_" + strings.ToUpper(strings.ReplaceAll(flag[1], "-", "_"))
			p := k.newProcess()
			p.cmd.Args = append(p.cmd.Args, command)
			p.cmd.Env = append(p.cmd.Env, name+"=nonsense")
			p.start()
			require.NotZero(k.t, p.awaitExit(), name)
			require.Contains(k.t, p.output(), name)
		}
	}
	p := k.standaloneController() // and texts: the data directory and the certificate
	for _, flag := range []string{"--data-dir", "--cert", "--key", "--ca", "--name"} {
		for i := range p.cmd.Args {
			if i+1 < len(p.cmd.Args) && p.cmd.Args[i] == flag {
				name := "HOLDFAST_" + strings.ToUpper(strings.ReplaceAll(flag[2:], "-", "_"))
				p.cmd.Env = append(p.cmd.Env, name+"="+p.cmd.Args[i+1])
				p.cmd.Args = append(p.cmd.Args[:i:i], p.cmd.Args[i+2:]...)
			}
		}
	}
	p.start()
	p.awaitProbe(true)
}
