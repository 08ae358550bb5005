package enroll

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/durablefile"
	"github.com/holdfast-storage/holdfast/raftnode/enroll/enrollpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// Joined is what a host was told of the cluster when it enrolled. It is kept beside the certificate, and holds no secret.
type Joined struct {
	RaftAddresses []string `json:"raft_addresses,omitempty"`
	APIAddresses  []string `json:"api_addresses,omitempty"`
	Address       string   `json:"address,omitempty"` // of this host
}

// joinedFile is beside the certificate.
const joinedFile = "joined.json"

// perController is how long one controller may take.
const perController = 20 * time.Second

// ErrUnavailable is wrapped by errors of a cluster that cannot be reached, or has no leader: the same command goes on.
var ErrUnavailable = errors.New("no controller issued the certificate")

// ErrRefused is wrapped by errors that repeating does not mend.
var ErrRefused = errors.New("the token is refused")

// Join gets the certificate of the token's identity for the key in files, which is made first where it is not there, and
// writes it there. It may be repeated after any interruption. A certificate of the identity that is there and has not
// expired is left as it is, and no controller is asked.
func Join(ctx context.Context, t *Token, files pki.Files, now time.Time) error {
	if needed, err := t.needed(files, now); err != nil || !needed {
		return err
	}
	request, err := pki.MakeRequest(files.Key)
	if err != nil {
		return err
	}
	resp, err := t.ask(ctx, request)
	if have, ok, _ := pki.Installed(files.Cert); ok && err != nil { // it was read above
		return fmt.Errorf("certificate %s expired on %s: %w", files.Cert, have.NotAfter.UTC().Format(time.RFC3339), err)
	}
	if err != nil {
		return err
	}
	joined := Joined{RaftAddresses: resp.GetRaftAddresses(), APIAddresses: resp.GetApiAddresses(), Address: resp.GetAddress()}
	if err := joined.write(files); err != nil {
		return err
	}
	return pki.Install(files, t.identity(), resp.GetCertificate(), resp.GetBundle())
}

func (t *Token) needed(files pki.Files, now time.Time) (bool, error) {
	have, ok, err := pki.Installed(files.Cert)
	switch {
	case err != nil:
		return false, err
	case !ok:
		return true, nil
	case have.Identity != t.identity():
		return false, fmt.Errorf("%w: %s is the certificate of %s, and the token is for %s: name other files, or another token", ErrRefused, files.Cert, have.Identity, t.identity())
	}
	return !now.Before(have.NotAfter), nil
}

// ask asks one controller after another, until one answers for all.
func (t *Token) ask(ctx context.Context, request []byte) (*enrollpb.EnrollResponse, error) {
	var failed []string
	for _, addr := range t.Addresses {
		resp, err := t.askOne(ctx, addr, request)
		switch {
		case err == nil:
			return resp, nil
		case isTemporary(status.Code(err)):
			failed = append(failed, addr+": "+reason(err))
		default:
			return nil, fmt.Errorf("%w by the controller at %s: %s", ErrRefused, addr, reason(err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("enrol %s/%s: %w: %s; the same command goes on", t.Role, t.Name, ErrUnavailable, strings.Join(failed, "; "))
}

func (t *Token) askOne(ctx context.Context, addr string, request []byte) (resp *enrollpb.EnrollResponse, err error) {
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(credentials.NewTLS(pki.PinnedClient(t.Pin, t.Cluster))))
	if err != nil {
		return nil, status.Errorf(codes.Unavailable, "connect: %v", err)
	}
	defer func() { _ = conn.Close() }() // nothing to flush
	ctx, cancel := context.WithTimeout(ctx, perController)
	defer cancel()
	key := ed25519.NewKeyFromSeed(t.Secret)
	req := &enrollpb.EnrollRequest{TokenId: t.ID, PublicKey: key.Public().(ed25519.PublicKey), Role: string(t.Role), Name: t.Name, CertificateRequest: request}
	if resp, err = enrollpb.NewEnrollmentClient(conn).Enroll(ctx, req, grpc.PerRPCCredentials(&prover{key: key, req: req})); err != nil {
		return nil, err
	}
	if err := pki.CheckAttestation(resp.GetBundle(), t.Pin, attestedText(resp), resp.GetAttestation()); err != nil {
		return nil, status.Errorf(codes.Unavailable, "the CA that the token names did not attest its answer: %v", err)
	}
	return resp, nil
}

// reason is an error's message without what gRPC puts before it.
func reason(err error) string {
	text := status.Convert(err).Message()
	if _, why, found := strings.Cut(text, "authentication handshake failed: "); found {
		return strings.Trim(why, `"`)
	}
	return text
}

// write replaces the file at once.
func (j *Joined) write(files pki.Files) error {
	content, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return err
	}
	path := joinedPath(files)
	if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
		err = durablefile.Write(path, append(content, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep what the cluster said of itself: %w", err)
	}
	return nil
}

func joinedPath(files pki.Files) string { return filepath.Join(filepath.Dir(files.Cert), joinedFile) }

// ReadJoined is what was kept beside the certificate; nothing where no token was used.
func ReadJoined(files pki.Files) (j Joined, err error) {
	content, err := os.ReadFile(joinedPath(files))
	if errors.Is(err, fs.ErrNotExist) {
		return Joined{}, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &j)
	}
	if err != nil {
		return Joined{}, fmt.Errorf("read what the cluster said of itself in %s: %w", joinedPath(files), err)
	}
	return j, nil
}
