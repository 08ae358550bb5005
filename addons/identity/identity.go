// Package identity serves the Identity service of CSI-Addons, on controllers and on nodes alike.
package identity

import (
	"context"

	"github.com/csi-addons/spec/lib/go/identity"
	"google.golang.org/protobuf/types/known/wrapperspb"

	csiidentity "github.com/holdfast-storage/holdfast/csi/identity"
)

// Config configures the service.
type Config struct {
	// Version of the build; required.
	Version string
	// Manifest is shown to people: it names the site (S34).
	Manifest map[string]string
	// Capabilities are those that this process serves, and no others.
	Capabilities []*identity.Capability
	// CSI is the service of the same process, whose readiness Probe has.
	CSI *csiidentity.Server
}

// Server serves identity.Identity.
type Server struct {
	identity.UnimplementedIdentityServer
	cfg Config
}

var _ identity.IdentityServer = (*Server)(nil)

// New makes the service.
func New(cfg Config) *Server { return &Server{cfg: cfg} }

// GetIdentity names the driver as CSI's GetPluginInfo does.
func (s *Server) GetIdentity(context.Context, *identity.GetIdentityRequest) (*identity.GetIdentityResponse, error) {
	return &identity.GetIdentityResponse{Name: csiidentity.Name, VendorVersion: s.cfg.Version, Manifest: s.cfg.Manifest}, nil
}

// GetCapabilities is what this process serves: orchestrators route calls by it.
func (s *Server) GetCapabilities(context.Context, *identity.GetCapabilitiesRequest) (*identity.GetCapabilitiesResponse, error) {
	return &identity.GetCapabilitiesResponse{Capabilities: s.cfg.Capabilities}, nil
}

// Probe answers as CSI's Probe does: the sidecar of CSI-Addons exits when it fails.
func (s *Server) Probe(ctx context.Context, _ *identity.ProbeRequest) (*identity.ProbeResponse, error) {
	resp, err := s.cfg.CSI.Probe(ctx, nil)
	if err != nil {
		return nil, err
	}
	return &identity.ProbeResponse{Ready: wrapperspb.Bool(resp.GetReady().GetValue())}, nil
}
