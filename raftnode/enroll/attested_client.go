package enroll

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/raftnode/enroll/enrollpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// maxAttestedToken is more than any token has.
const maxAttestedToken = 12 << 10

// Node enrols a node by tokens that another authority gives it, now and again before its certificate expires. The tokens are
// secrets: they go to controllers of the cluster only, as the CAs prove them.
type Node struct {
	Name      string   // of the node
	Endpoints []string // of enrolment listeners
	TokenFile string   // with the token; read each time, because its authority replaces it
	CAFile    string   // with the cluster's CAs, the one that signs first; read each time
	Files     pki.Files
}

// Usable tells whether the certificate that is there is the node's and has not expired.
func (n *Node) Usable(now time.Time) bool {
	have, ok, err := pki.Installed(n.Files.Cert)
	if err != nil || !ok || have.Role != pki.Node || have.Name != n.Name || !now.Before(have.NotAfter) {
		return false
	}
	_, err = pki.Load(n.Files)
	return err == nil
}

// Enroll gets a certificate where there is none, or one that ends soon or is not by the CA that signs; changed tells whether it did.
// It has the node trust the CAs that CAFile names and no others. It may be repeated after any interruption. An error that wraps
// ErrUnavailable or ErrRefused says that no controller issued one.
func (n *Node) Enroll(ctx context.Context, now time.Time) (changed bool, err error) {
	trust, err := pki.ReadTrust(n.CAFile)
	if err != nil {
		return false, err
	}
	id := pki.Identity{Cluster: trust.Cluster, Role: pki.Node, Name: n.Name}
	if err := id.Check(); err != nil {
		return false, err
	}
	due, err := pki.IsDue(n.Files, id, trust, now)
	switch {
	case err != nil:
		return false, err
	case !due:
		return false, trust.WriteTo(n.Files.CA)
	}
	if err := n.enroll(ctx, trust, id); err != nil {
		return false, err
	}
	return true, trust.WriteTo(n.Files.CA)
}

func (n *Node) enroll(ctx context.Context, trust *pki.Trust, id pki.Identity) error {
	token, err := n.token()
	if err != nil {
		return err
	}
	request, keyFile, err := pki.RequestNext(n.Files)
	if err != nil {
		return err
	}
	resp, err := n.ask(ctx, trust, &enrollpb.AttestedRequest{Token: token, Name: n.Name, CertificateRequest: request})
	if err != nil {
		return err
	}
	joined := Joined{RaftAddresses: resp.GetRaftAddresses(), APIAddresses: resp.GetApiAddresses()}
	if err := joined.write(n.Files); err != nil {
		return err
	}
	return pki.InstallNext(n.Files, keyFile, id, resp.GetCertificate(), resp.GetBundle())
}

// token reads the token. No error has anything of it.
func (n *Node) token() (string, error) {
	file, err := os.Open(n.TokenFile)
	if err != nil {
		return "", fmt.Errorf("read the token to enrol with: %w", err)
	}
	defer func() { _ = file.Close() }() // it was read only
	content, err := io.ReadAll(io.LimitReader(file, maxAttestedToken+1))
	text := strings.TrimSpace(string(content))
	switch {
	case err != nil:
		return "", fmt.Errorf("read the token to enrol with: %w", err)
	case text == "":
		return "", fmt.Errorf("read the token to enrol with: %s is empty", n.TokenFile)
	case len(content) > maxAttestedToken:
		return "", fmt.Errorf("read the token to enrol with: %s has more than %d bytes", n.TokenFile, maxAttestedToken)
	}
	return text, nil
}

// ask asks one controller after another. One that refuses may not have heard what another one knows, so all are asked.
func (n *Node) ask(ctx context.Context, trust *pki.Trust, req *enrollpb.AttestedRequest) (*enrollpb.EnrollResponse, error) {
	kind, failed := ErrUnavailable, []string(nil)
	for _, addr := range n.Endpoints {
		resp, err := askAttested(ctx, addr, trust, req)
		if err == nil {
			return resp, nil
		}
		if !isTemporary(status.Code(err)) {
			kind = ErrRefused
		}
		failed = append(failed, addr+": "+reason(err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("enrol node/%s: %w: %s", n.Name, kind, strings.Join(failed, "; "))
}

func askAttested(ctx context.Context, addr string, trust *pki.Trust, req *enrollpb.AttestedRequest) (*enrollpb.EnrollResponse, error) {
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(credentials.NewTLS(trust.Client())))
	if err != nil {
		return nil, status.Errorf(codes.Unavailable, "connect: %v", err)
	}
	defer func() { _ = conn.Close() }() // nothing to flush
	ctx, cancel := context.WithTimeout(ctx, perController)
	defer cancel()
	resp, err := enrollpb.NewEnrollmentClient(conn).EnrollAttested(ctx, req)
	if err != nil {
		return nil, err
	}
	if err := trust.CheckAttestation(attestedText(resp), resp.GetAttestation()); err != nil {
		return nil, status.Errorf(codes.Unavailable, "no CA that this host knows attested the answer: %v", err)
	}
	return resp, nil
}

// isTemporary tells codes of calls that may succeed later.
func isTemporary(code codes.Code) bool {
	switch code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Aborted, codes.Internal, codes.Unimplemented, codes.Canceled:
		return true
	default:
		return false
	}
}

// Keep keeps the certificate good until ctx ends: it looks every interval, and says why none is issued when that changes.
func (n *Node) Keep(ctx context.Context, interval time.Duration, said func(changed bool, err error)) {
	last := ""
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		changed, err := n.Enroll(ctx, time.Now())
		text := ""
		if err != nil {
			text = err.Error()
		}
		if ctx.Err() == nil && (changed || text != last) {
			said(changed, err)
		}
		last = text
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// errNoCertificate ends a wait for the first certificate.
var errNoCertificate = errors.New("no certificate was got")

// First waits until there is a certificate that can be used, asking at growing intervals up to most, and calls said each time that
// none was got. A certificate that is there and good is enough, whatever its CA says now.
func (n *Node) First(ctx context.Context, most time.Duration, said func(error)) error {
	for pause := min(time.Second, most); ; pause = min(2*pause, most) {
		if n.Usable(time.Now()) {
			return nil
		}
		_, err := n.Enroll(ctx, time.Now())
		if err == nil && n.Usable(time.Now()) {
			return nil
		}
		if err == nil {
			_, err = pki.Load(n.Files)
			err = fmt.Errorf("enrol node/%s: the certificate that is there cannot be used: %w", n.Name, err)
		}
		said(err)
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errNoCertificate, err)
		case <-time.After(pause):
		}
	}
}
