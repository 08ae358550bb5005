package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// controllerAt is a controller that is stopped and started again at one address.
type controllerAt struct {
	t       *testing.T
	api     adminpb.AdminServer
	address string
	own     *pki.Credentials
	server  *grpc.Server
	flags   []string
}

func newController(t *testing.T, api adminpb.AdminServer) *controllerAt {
	t.Helper()
	ca, dir := t.TempDir()+"/ca", t.TempDir()
	require.NoError(t, pki.MakeCA(ca, "one"))
	files := map[pki.Role]pki.Files{}
	for _, role := range []pki.Role{pki.Controller, pki.Admin} {
		issued, err := pki.Issue(ca, dir+"/"+string(role), pki.Identity{Role: role, Name: "x"}, time.Hour)
		require.NoError(t, err)
		files[role] = issued
	}
	own, err := pki.Load(files[pki.Controller])
	require.NoError(t, err)
	c := &controllerAt{t: t, api: api, address: "127.0.0.1:0", own: own}
	c.start()
	c.flags = []string{"--endpoints", c.address, "--cert", files[pki.Admin].Cert, "--key", files[pki.Admin].Key, "--ca", files[pki.Admin].CA}
	t.Cleanup(func() { c.server.Stop() })
	return c
}

func (c *controllerAt) start() {
	listener, err := net.Listen("tcp", c.address)
	require.NoError(c.t, err)
	c.address = listener.Addr().String()
	c.server = grpc.NewServer(grpc.Creds(credentials.NewTLS(c.own.Server(pki.Admin))))
	adminpb.RegisterAdminServer(c.server, c.api)
	go func(s *grpc.Server) { _ = s.Serve(listener) }(c.server)
}

// watching is a command that runs until it is stopped.
type watching struct {
	t              *testing.T
	stdout, stderr *bufio.Scanner
	stop           context.CancelFunc
	ended          chan error
}

func watch(t *testing.T, args ...string) *watching {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	outRead, outWrite := io.Pipe()
	errRead, errWrite := io.Pipe()
	w := &watching{t: t, stdout: bufio.NewScanner(outRead), stderr: bufio.NewScanner(errRead), stop: cancel, ended: make(chan error, 1)}
	t.Cleanup(func() { cancel(); _ = outRead.Close(); _ = errRead.Close() })
	root := Root()
	root.SetArgs(append(args, "--watch", "--interval", "100ms"))
	root.SetOut(outWrite)
	root.SetErr(errWrite)
	go func() {
		err := root.ExecuteContext(ctx)
		_, _ = outWrite.Close(), errWrite.Close()
		w.ended <- err
	}()
	return w
}

func (w *watching) line(s *bufio.Scanner) string {
	w.t.Helper()
	require.True(w.t, s.Scan(), "the watch ended")
	return s.Text()
}

// end stops the watch as Ctrl-C does, and wants nothing but what was read to have been printed.
func (w *watching) end() {
	w.t.Helper()
	w.stop()
	require.False(w.t, w.stdout.Scan(), w.stdout.Text())
	require.False(w.t, w.stderr.Scan(), w.stderr.Text())
	require.Equal(w.t, exit.OK, exit.Code(<-w.ended))
}

// TestAWatchOutlivesItsController: what changed while no controller ran is told when one answers again, and nothing twice.
func TestAWatchOutlivesItsController(t *testing.T) {
	for _, format := range []string{"table", "json"} {
		t.Run(format, func(t *testing.T) {
			f := &fakeLists{}
			f.set(volume(1, 1<<30, "n1"), volume(2, 1<<30, "n2"))
			c := newController(t, f)
			w := watch(t, append([]string{"volumes", "-o", format}, c.flags...)...)
			if format == "table" {
				require.Regexp(t, `^TIME +CHANGE +ID +NAME`, w.line(w.stdout))
			}
			w.requireChange(format, "added", "hv-01")
			w.requireChange(format, "added", "hv-02")
			for range 2 {
				c.server.Stop()
				require.Contains(t, w.line(w.stderr), "list the volumes: ")
				grown := volume(1, 1<<40, "n1")
				f.set(grown, volume(3, 1<<30, "n1"))
				c.start()
				require.Contains(t, w.line(w.stderr), "answered again")
				w.requireChange(format, "changed", "hv-01")
				w.requireChange(format, "added", "hv-03")
				w.requireChange(format, "removed", "hv-02")
				c.server.Stop()
				require.Contains(t, w.line(w.stderr), "the watch goes on")
				f.set(volume(1, 1<<30, "n1"), volume(2, 1<<30, "n2"))
				c.start()
				require.Contains(t, w.line(w.stderr), "answered again")
				w.requireChange(format, "changed", "hv-01")
				w.requireChange(format, "added", "hv-02")
				w.requireChange(format, "removed", "hv-03")
			}
			w.end()
		})
	}
}

func (w *watching) requireChange(format, change, id string) {
	w.t.Helper()
	line := w.line(w.stdout)
	if format == "table" {
		require.Equal(w.t, []string{change, id}, strings.Fields(line)[1:3], line)
		return
	}
	var got struct {
		Time, Change string
		Index        uint64
		Item         struct{ ID string }
	}
	require.NoError(w.t, json.Unmarshal([]byte(line), &got), line)
	require.Equal(w.t, []any{change, id, uint64(9)}, []any{got.Change, got.Item.ID, got.Index})
	_, err := time.Parse(time.RFC3339, got.Time)
	require.NoError(w.t, err)
}

func TestAWatchBeginsBeforeThereIsAController(t *testing.T) {
	f := &fakeLists{}
	f.set(volume(1, 1<<30, "n1"))
	c := newController(t, f)
	c.server.Stop()
	w := watch(t, append([]string{"volumes"}, c.flags...)...)
	require.Contains(t, w.line(w.stderr), "the watch goes on")
	c.start()
	require.Contains(t, w.line(w.stderr), "answered again")
	require.Contains(t, w.line(w.stdout), "CHANGE")
	require.Contains(t, w.line(w.stdout), "hv-01")
	w.end()
}

func TestAWatchEndsByWhatIsRefused(t *testing.T) {
	c := newController(t, &fakeLists{})
	for range 2 {
		w := watch(t, append([]string{"snapshots"}, c.flags...)...)
		err := <-w.ended
		require.Equal(t, exit.Refused, exit.Code(err))
		require.ErrorContains(t, err, "list the snapshots: not you")
	}
}

// fakeQuorum has a leader or none.
type fakeQuorum struct {
	fakeLists
	leader func() string
}

func (f *fakeQuorum) Status(context.Context, *adminpb.StatusRequest) (*adminpb.StatusResponse, error) {
	leader := f.leader()
	role := map[bool]string{true: "leader", false: "follower"}
	return &adminpb.StatusResponse{Leader: leader, Members: []*adminpb.Member{
		{Id: "c1", MemberId: "m-1", Role: role[leader == "c1"]}, {Id: "c2", MemberId: "m-2", Role: role[leader == "c2"]}}}, nil
}

// TestAWatchedStatusSurvivesAChangeOfLeader: without a leader the members are shown, and the error once.
func TestAWatchedStatusSurvivesAChangeOfLeader(t *testing.T) {
	leaders := make(chan string)
	leader := "c1"
	f := &fakeQuorum{leader: func() string {
		select {
		case leader = <-leaders:
		default:
		}
		return leader
	}}
	c := newController(t, f)
	w := watch(t, append([]string{"status"}, c.flags...)...)
	require.Contains(t, w.line(w.stdout), "ROLE")
	require.Regexp(t, `added +c1 +leader`, w.line(w.stdout))
	require.Regexp(t, `added +c2 +follower`, w.line(w.stdout))
	leaders <- ""
	require.Contains(t, w.line(w.stderr), "there is no leader")
	require.Regexp(t, `changed +c1 +follower`, w.line(w.stdout))
	leaders <- "c2"
	require.Contains(t, w.line(w.stderr), "answered again")
	require.Regexp(t, `changed +c2 +leader`, w.line(w.stdout))
	w.end()
}

// TestATerminalShowsWhatIsKnown: after a failure the last answer stays, with the error below it.
func TestATerminalShowsWhatIsKnown(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out, title: "holdfast volumes", format: "table", list: admin.VolumeList, view: listing.View{SortBy: []string{"-id"}}}
	require.NoError(t, s.show(nil, errors.New("nobody answers")))
	require.Contains(t, out.String(), "nobody answers")
	require.NoError(t, s.show(&adminpb.VolumesResponse{Volumes: someVolumes()}, nil))
	for range 2 {
		out.Reset()
		require.NoError(t, s.show(nil, errors.New("nobody answers")))
		require.True(t, strings.HasPrefix(out.String(), clearScreen))
		require.Less(t, strings.Index(out.String(), "hv-05"), strings.Index(out.String(), "hv-01"))
		require.Contains(t, out.String(), "nobody answers; what is above is what was known last")
	}
	require.False(t, isTerminal(&out))
}
