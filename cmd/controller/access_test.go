package controller

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/access"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// rpc is one method of a server, with one verb where it has some.
type rpc struct {
	method, verb string
	stream       bool
}

func (r rpc) String() string { return strings.TrimSpace(r.method + " " + r.verb) }

// roles are those of the table's row; none: there is no row.
func (r rpc) roles() []pki.Role {
	for _, row := range access.Table {
		if row.Method == r.method && row.Verb == r.verb {
			return row.Roles
		}
	}
	return nil
}

// rpcsOf are all that a server has registered: a method with verbs once with each, without one, and with one that is not known.
func rpcsOf(server *grpc.Server) (all []rpc) {
	for service, info := range server.GetServiceInfo() {
		for _, m := range info.Methods {
			r := rpc{method: "/" + service + "/" + m.Name, stream: m.IsClientStream || m.IsServerStream}
			all = append(all, r)
			if verbs := verbsOf(r.method); verbs != nil {
				for _, verb := range append(verbs, "no-such-verb") {
					all = append(all, rpc{method: r.method, verb: verb})
				}
			}
		}
	}
	return all
}

// verbsOf are those of a method that has different rows for them.
func verbsOf(method string) []string {
	switch method {
	case adminpb.Admin_CarryOut_FullMethodName:
		return admin.Verbs()
	case adminpb.Admin_ChangeVolume_FullMethodName:
		return admin.VolumeVerbs()
	}
	return nil
}

// call sends a request that has nothing but its verb, and ends the requests of a stream.
func (r rpc) call(ctx context.Context, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var req proto.Message = &emptypb.Empty{}
	switch {
	case r.method == adminpb.Admin_ChangeVolume_FullMethodName:
		req = &adminpb.VolumeChangeRequest{Verb: r.verb}
	case r.verb != "":
		req = &adminpb.PlanRequest{Verb: r.verb}
	}
	if !r.stream {
		return conn.Invoke(ctx, r.method, req, &emptypb.Empty{})
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, r.method)
	if err != nil {
		return err
	}
	if !strings.HasSuffix(r.method, "/Attach") {
		_ = stream.SendMsg(req) // what ended the stream is received
	}
	_ = stream.CloseSend()
	return stream.RecvMsg(&emptypb.Empty{})
}

// TestWhoMayDoWhat: every method of every service, with every verb, answers each role as the table says, and is refused to who has
// no certificate or a role that is none.
func TestWhoMayDoWhat(t *testing.T) {
	b := newTestController(t)
	c := b.start()
	defer b.stopAndWait()
	servers := map[string]*grpc.Server{c.apiListener.Addr().String(): c.api}
	addr, raft := b.serveAsRaft(c)
	servers[addr] = raft
	for addr, server := range servers {
		for _, role := range pki.Roles() {
			creds, err := pki.Load(b.issue(role, "x"))
			require.NoError(t, err)
			b.checkCalls(server, dialAs(t, addr, creds.Client(pki.Controller)), func(r rpc, err error) {
				refused := status.Code(err) == codes.PermissionDenied && strings.Contains(err.Error(), " may not call ")
				require.Equal(t, !slices.Contains(r.roles(), role), refused, "%s calls %s: %v", role, r, err)
			})
		}
		for name, config := range map[string]*tls.Config{"no certificate": b.withCertificate(), "a role that is none": b.withCertificate(b.strange("king"))} {
			b.checkCalls(server, dialAs(t, addr, config), func(r rpc, err error) {
				require.Equal(t, codes.Unavailable, status.Code(err), "%s calls %s: %v", name, r, err)
			})
		}
	}
}

// serveAsRaft serves what the Raft listener serves, to who is not let on that listener too.
func (b *testController) serveAsRaft(c *controller) (addr string, server *grpc.Server) {
	unary, stream := access.Interceptors()
	server = grpc.NewServer(grpc.Creds(credentials.NewTLS(c.creds.Server(pki.Roles()...))), grpc.UnaryInterceptor(unary), grpc.StreamInterceptor(stream))
	raftpb.RegisterMemberServer(server, raftpb.UnimplementedMemberServer{})
	c.sessions.RegisterPeers(server)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b.t, err)
	go func() { _ = server.Serve(listener) }()
	b.t.Cleanup(server.Stop)
	return listener.Addr().String(), server
}

func (b *testController) checkCalls(server *grpc.Server, conn *grpc.ClientConn, check func(rpc, error)) {
	for _, r := range rpcsOf(server) {
		for range 2 {
			check(r, r.call(b.t.Context(), conn))
		}
	}
}

func dialAs(t *testing.T, addr string, config *tls.Config) *grpc.ClientConn {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

// withCertificate is a client that does not look whom it speaks to.
func (b *testController) withCertificate(certs ...tls.Certificate) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, Certificates: certs, MinVersion: tls.VersionTLS13} //nolint:gosec // the server's check is meant
}

// strange is a certificate of the cluster's CA for a role that there is not.
func (b *testController) strange(role string) tls.Certificate {
	ca, err := tls.LoadX509KeyPair(filepath.Join(b.dir, "ca", "ca.crt"), filepath.Join(b.dir, "ca", "ca.key"))
	require.NoError(b.t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(b.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		URIs: []*url.URL{{Scheme: "spiffe", Host: "test", Path: "/" + role + "/x"}}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Leaf, key.Public(), ca.PrivateKey)
	require.NoError(b.t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestTheTableIsOfWhatIsServed: every method that is registered has a row, every verb too, and no row is of anything else.
func TestTheTableIsOfWhatIsServed(t *testing.T) {
	b := newTestController(t)
	c := b.start()
	defer b.stopAndWait()
	_, raft := b.serveAsRaft(c)
	served := map[string]bool{}
	for _, r := range append(rpcsOf(c.api), rpcsOf(raft)...) {
		if r.verb == "no-such-verb" || r.verb == "" && verbsOf(r.method) != nil {
			require.Empty(t, r.roles(), r)
			continue
		}
		require.NotEmpty(t, r.roles(), "%s has no row", r)
		served[r.String()] = true
	}
	for _, row := range access.Table {
		require.True(t, served[rpc{method: row.Method, verb: row.Verb}.String()], "nothing serves %s %s", row.Method, row.Verb)
	}
}

// TestViewersChangeNothing: what viewers may call says of itself that it changes nothing.
func TestViewersChangeNothing(t *testing.T) {
	methods := adminpb.File_admin_adminpb_admin_proto.Services().ByName("Admin").Methods()
	for i := range methods.Len() {
		r := rpc{method: "/holdfast.admin.v1.Admin/" + string(methods.Get(i).Name())}
		options, _ := methods.Get(i).Options().(*descriptorpb.MethodOptions)
		if slices.Contains(r.roles(), pki.Viewer) {
			require.Equal(t, descriptorpb.MethodOptions_NO_SIDE_EFFECTS, options.GetIdempotencyLevel(), r)
		}
	}
}

// TestAnOperatorsDay: what the table gives operators, the log takes from them, in their name.
func TestAnOperatorsDay(t *testing.T) {
	b := newTestController(t)
	c := b.start()
	defer b.stopAndWait()
	_, err := c.cluster.Propose(t.Context(), &fsmpb.Command{Actor: "node/n1", Body: &fsmpb.Command_RegisterNode{RegisterNode: &fsmpb.RegisterNode{
		NodeId: "n1", HostId: "h1", BootId: "b1", FeatureLevel: 3, Pools: []*fsmpb.Pool{{PoolId: "p1", Backend: "loopfile", CapacityBytes: 1 << 40, OvercommitPercent: 100}}}}})
	require.NoError(t, err)
	ann := b.client(c, pki.Operator, "ann")
	carryOut := func(verb string) error {
		return ann.TryEach(t.Context(), func(ctx context.Context, api adminpb.AdminClient) error {
			_, err := api.CarryOut(ctx, &adminpb.PlanRequest{Verb: verb, Node: "n1", HostId: "h1"})
			return err
		})
	}
	for range 2 {
		require.NoError(t, carryOut("drain"))
		require.NoError(t, carryOut("undrain"))
		require.Equal(t, codes.PermissionDenied, status.Code(carryOut("evict")))
		require.Equal(t, codes.NotFound, status.Code(ann.TryEach(t.Context(), func(ctx context.Context, api adminpb.AdminClient) error {
			_, err := api.RetryOperation(ctx, &adminpb.OperationRequest{Id: 7})
			return err
		})), "the log looked for the operation")
	}
	var actors []string
	require.NoError(t, ann.History(t.Context(), &adminpb.HistoryRequest{Node: "n1"}, func(m *adminpb.HistoryResponse) error {
		if e := m.GetEntry(); e.GetKind() == "schedule_node" {
			actors = append(actors, e.GetActor())
		}
		return nil
	}))
	require.NotEmpty(t, actors)
	for _, actor := range actors {
		require.Equal(t, "operator/ann", actor)
	}
}
