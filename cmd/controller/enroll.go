package controller

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/cmd/daemon"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/kube/client"
	"github.com/holdfast-storage/holdfast/kube/enrol"
	"github.com/holdfast-storage/holdfast/raftnode/enroll"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// enrollFlags have this controller issue certificates for join tokens.
type enrollFlags struct {
	listen, advertise, caDir string
	account                  string
	selfIssue                bool
}

func (f *enrollFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.listen, "enroll-listen", "", "`address` of the listener at which hosts with a join token get their certificate, such as :9803; with --ca-dir. Empty: this controller issues none")
	flags.StringVar(&f.advertise, "enroll-advertise", "", "`address` of that listener in tokens; --enroll-listen by default")
	flags.StringVar(&f.caDir, "ca-dir", "", "`folder` of `holdfast ca make`, with the CA's key: who takes over this host can then issue any certificate of the cluster")
	flags.StringVar(&f.account, "enroll-service-account", "", "service account of the nodes' pods in Kubernetes, as `namespace/name`: a node then enrols with its token of the audience "+enrol.Audience+", which the API server attests")
	flags.BoolVar(&f.selfIssue, "self-issue", false, "make this controller's own certificate with the CA in --ca-dir, in --tls-dir, and renew it there; with --name")
}

func (f *enrollFlags) check() error {
	switch {
	case f.listen != "" && f.caDir == "", f.caDir != "" && f.listen == "" && !f.selfIssue:
		return exit.Usagef("--enroll-listen and --ca-dir: give both, or neither")
	case f.selfIssue && f.caDir == "":
		return exit.Usagef("--self-issue needs --ca-dir")
	case f.account != "" && f.listen == "":
		return exit.Usagef("--enroll-service-account needs --enroll-listen")
	case f.account == "":
		return nil
	}
	if _, _, err := enrol.ParseAccount(f.account); err != nil {
		return exit.Usagef("--enroll-service-account: %w", err)
	}
	return nil
}

// attestor asks the API server; nil where no service account is named.
func (f *enrollFlags) attestor() (enroll.Attestor, error) {
	if f.account == "" {
		return nil, nil
	}
	namespace, account, err := enrol.ParseAccount(f.account)
	if err != nil {
		return nil, exit.Usagef("--enroll-service-account: %w", err)
	}
	api, _, err := client.Source{}.Connect()
	if err != nil {
		return nil, exit.Usagef("--enroll-service-account: %w", err)
	}
	return &enrol.Reviewer{Client: api, Namespace: namespace, Account: account}, nil
}

// enrollment is what serves it.
type enrollment struct {
	signer   *pki.Signer
	listener net.Listener
	server   *grpc.Server
}

// openEnrollment opens the listener; nothing where it is not asked for.
func (c *controller) openEnrollment(ctx context.Context) (err error) {
	if c.enrollFlags.listen == "" {
		return nil
	}
	e := &enrollment{}
	if e.signer, err = pki.NewSigner(c.enrollFlags.caDir, c.creds.Identity().Cluster); err != nil {
		return exit.Usagef("--ca-dir: %w", err)
	}
	attestor, err := c.enrollFlags.attestor()
	if err != nil {
		return err
	}
	listener, err := daemon.Listen(ctx, "enrolment", "enroll-listen", c.enrollFlags.listen)
	if err != nil {
		return err
	}
	e.listener = enroll.LimitConnections(listener)
	recoverUnary, _ := daemon.RecoverCalls(c.log)
	_, e.server = enroll.NewServer(enroll.Config{
		Cluster: c.cluster, Credentials: c.creds, Signer: e.signer, Attestor: attestor, Addresses: c.memberAddresses, Error: rpcerr.From, Logger: c.log,
	}, recoverUnary)
	c.enrollment = e
	return nil
}

// serveEnrollment serves until the server is stopped.
func (c *controller) serveEnrollment() error {
	if err := c.enrollment.server.Serve(c.enrollment.listener); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// enrollAddress is where hosts reach the listener; empty: there is none.
func (c *controller) enrollAddress() string {
	if c.enrollment == nil {
		return ""
	}
	return dialable(firstNonEmpty(c.enrollFlags.advertise, c.enrollment.listener.Addr().String()), firstNonEmpty(c.raftAdvertise, c.raftListener.Addr().String()))
}

// memberAddresses are the addresses of the members' Raft listeners, and of the APIs of those that answer.
func (c *controller) memberAddresses(ctx context.Context) (raft, api []string) {
	m, err := c.cluster.member()
	if err != nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	for _, p := range m.Peers() {
		raft = append(raft, p.Addr)
		if s, err := askStatus(ctx, m, p, 0); err == nil && s.GetApiAddr() != "" {
			api = append(api, dialable(s.GetApiAddr(), p.Addr))
		}
	}
	slices.Sort(raft)
	slices.Sort(api)
	return raft, api
}

// dialable is an address with the host of another one where its own stands for all of a machine's.
func dialable(addr, other string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip, err := netip.ParseAddr(host); host != "" && (err != nil || !ip.IsUnspecified()) {
		return addr
	}
	if host, _, err = net.SplitHostPort(other); err != nil {
		return addr
	}
	return net.JoinHostPort(host, port)
}

// tokenAuthority checks that a certificate can name the identity, and returns the pin of the cluster's CA.
func (c *controller) tokenAuthority(role, name string) (pin []byte, cluster string, err error) {
	id := pki.Identity{Cluster: c.creds.Identity().Cluster, Role: pki.Role(role), Name: name}
	if err := id.Check(); err != nil {
		return nil, "", status.Errorf(codes.InvalidArgument, "create a join token: %v", err)
	}
	of, err := c.creds.IssuerPin()
	if err != nil {
		return nil, "", status.Errorf(codes.FailedPrecondition, "create a join token: %v", err)
	}
	if err := c.checkSigns(of); err != nil {
		return nil, "", err
	}
	return of[:], id.Cluster, nil
}

// checkSigns refuses a pin of a CA that no longer signs: hosts could not use the token, and a second one would have the same pin.
// A controller that issues no certificates cannot tell.
func (c *controller) checkSigns(pin pki.Pin) error {
	if c.enrollment == nil {
		return nil
	}
	switch signs, err := c.enrollment.signer.Signs(pin[:]); {
	case err != nil:
		return status.Errorf(codes.Unavailable, "create a join token: %v", err)
	case !signs:
		return status.Error(codes.FailedPrecondition, "create a join token: this controller's certificate is of another CA than the one that signs in its --ca-dir: first give all controllers "+
			"their certificates of the new CA, which `holdfast ca rotate --switch` issues in each --folder; `holdfast certs list` shows whose they are")
	}
	return nil
}

// enroll gets this controller its certificate where it has a token, and takes up what the cluster said of itself.
func (o *options) enroll(ctx context.Context, c *controller) error {
	o.Join.ChooseFiles(&o.Files)
	joined, err := o.Join.Enroll(ctx, o.Files, pki.Controller, c.log)
	if err != nil {
		return err
	}
	if len(o.join) == 0 && !o.bootstrap {
		o.join = joined.RaftAddresses
	}
	if joined.Address == "" || o.isSet == nil {
		return nil
	}
	for flag, listen := range map[string]*string{"raft-listen": &o.raftListen, "api-listen": &o.apiListen} {
		if o.isSet(flag) {
			continue
		}
		_, port, err := net.SplitHostPort(*listen)
		if err != nil {
			return fmt.Errorf("read the default of --%s: %w", flag, err)
		}
		*listen = net.JoinHostPort(joined.Address, port)
	}
	return nil
}

// checkZone checks the name of a zone as labels of hosts are.
func checkZone(zone string) error {
	if zone == "" {
		return nil
	}
	if rej := fsm.CheckSite(zone); rej != nil {
		return exit.Usagef("--zone: %q is not made of letters, digits, dots, underscores and dashes as the hosts' zones are", zone)
	}
	return nil
}
