// Package encryption serves EncryptionKeyRotation of CSI-Addons on a node's socket: the key of a volume that is
// staged there is replaced (S64). Passphrases go to the host's executor and nowhere else (S63).
package encryption

import (
	"context"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	spec "github.com/csi-addons/spec/lib/go/encryptionkeyrotation"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Host is the executor of this node.
type Host interface {
	RotateKey(ctx context.Context, req executor.RotateRequest) error
}

// Server serves encryptionkeyrotation.EncryptionKeyRotationController.
type Server struct {
	spec.UnimplementedEncryptionKeyRotationControllerServer
	host Host
	site string
}

var _ spec.EncryptionKeyRotationControllerServer = (*Server)(nil)

// New makes the service of a node at a site.
func New(host Host, site string) *Server { return &Server{host: host, site: site} }

// EncryptionKeyRotate replaces the key of a volume that is staged here, and returns when nothing but the new
// key opens it. Repeated, it goes on, or finds that it was done.
func (s *Server) EncryptionKeyRotate(ctx context.Context, req *spec.EncryptionKeyRotateRequest) (*spec.EncryptionKeyRotateResponse, error) {
	rotate, err := s.rotateRequest(req)
	if err == nil {
		err = s.host.RotateKey(ctx, rotate)
	}
	if err != nil {
		return nil, rpcerr.OrUnknown(err)
	}
	return &spec.EncryptionKeyRotateResponse{}, nil
}

// rotateRequest checks the request. Its parameters are the volume's attributes as its orchestrator has them,
// whatever they are.
func (s *Server) rotateRequest(req *spec.EncryptionKeyRotateRequest) (executor.RotateRequest, error) {
	r := executor.RotateRequest{Volume: fsm.VolumeID(req.GetVolumeId()), Path: req.GetVolumePath()}
	if r.Volume == "" {
		return r, fsm.Reject(fsm.Invalid, "volume_id is required")
	}
	if err := csiconv.CheckSite(s.site, req.GetParameters()); err != nil {
		return r, err
	}
	var err error
	if r.Capability, err = parseCapability(req.GetVolumeCapability()); err != nil {
		return r, err
	}
	if err := readKeys(&r, req); err != nil {
		return r, err
	}
	switch {
	case !r.Volume.Valid():
		return r, fsm.UnknownVolume(r.Volume)
	case r.Path != "" && !filepath.IsAbs(r.Path):
		return r, fsm.Reject(fsm.NotFound, "volume %s is not at that volume_path", r.Volume)
	}
	return r, nil
}

// parseCapability reads what the volume is staged for, which is zero where the call does not say it: the client of Kubernetes
// sends the access mode alone, of raw volumes and of filesystems.
func parseCapability(c *csi.VolumeCapability) (fsm.Capability, error) {
	if c == nil {
		return fsm.Capability{}, nil
	}
	if c.GetAccessType() == nil {
		_, err := csiconv.DecodeAccessMode(c)
		return fsm.Capability{}, err
	}
	return csiconv.ParseCapability(c)
}

// readKeys: the new key is encryption_key, which the client of Kubernetes does not send, or else the present
// passphrase of the volume's Secret. The old one is then the Secret's present one, or its previous one. Without an
// old one the key stays and gets a slot of its own.
func readKeys(r *executor.RotateRequest, req *spec.EncryptionKeyRotateRequest) error {
	secrets := req.GetSecrets()
	keys, err := executor.ParsePassphrases(req.GetEncryptionKey(), secrets[csiconv.PassphraseSecret], secrets[csiconv.PreviousPassphraseSecret])
	if err != nil {
		return err
	}
	if keys[0].IsZero() {
		keys = keys[1:]
	}
	if keys[0].IsZero() {
		return fsm.Reject(fsm.Invalid, "encryption_key, or the secret %s, is required", csiconv.PassphraseSecret)
	}
	r.New = keys[0]
	for _, old := range keys[1:] {
		if !old.IsZero() {
			r.Old = append(r.Old, old)
		}
	}
	return nil
}
