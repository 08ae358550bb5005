// Package identity serves csi.v1.Identity, on controllers and on nodes alike.
package identity

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/holdfast-storage/holdfast/csi/rpcerr"
)

// Name is the driver's name: what container orchestrators (COs) know it by.
const Name = "csi.holdfast.storage"

// ErrUnhealthy is to be wrapped by errors of Config.Ready that waiting does not repair: a
// missing tool, a member in quarantine. Probe then fails with FAILED_PRECONDITION instead
// of saying that it is not ready yet.
var ErrUnhealthy = errors.New("unhealthy")

// Config configures the service.
type Config struct {
	// Name is the driver's, identity.Name when empty.
	Name string
	// Version of the build; required.
	Version string
	// Ready is nil when the process can serve. Any other error means not yet, as long as
	// it does not wrap ErrUnhealthy. It is called at every Probe: it must be cheap and
	// must not block.
	Ready func() error
	// Disabled are the services that are disabled by configuration, the same on all
	// processes: they are not advertised.
	Disabled []csi.PluginCapability_Service_Type
	// NoExpansion: expansion is disabled.
	NoExpansion bool
}

// Server serves csi.v1.Identity.
type Server struct {
	csi.UnimplementedIdentityServer
	cfg Config
}

var _ csi.IdentityServer = (*Server)(nil)

// namePattern is CSI's domain name notation, with a letter at both ends.
var namePattern = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$`)

const maxName = 63 // bytes

// New checks the configuration.
func New(cfg Config) (*Server, error) {
	if cfg.Name == "" {
		cfg.Name = Name
	}
	lastByte := cfg.Name[len(cfg.Name)-1]
	switch {
	case len(cfg.Name) > maxName || !namePattern.MatchString(cfg.Name) || lastByte >= '0' && lastByte <= '9':
		return nil, fmt.Errorf("driver name %q: it must be a domain name of at most %d bytes with a letter at both ends", cfg.Name, maxName)
	case cfg.Version == "":
		return nil, errors.New("the identity service needs the version of the build")
	case cfg.Ready == nil:
		return nil, errors.New("the identity service needs to know whether the process is ready")
	}
	return &Server{cfg: cfg}, nil
}

// GetPluginInfo names the driver and its version.
func (s *Server) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: s.cfg.Name, VendorVersion: s.cfg.Version}, nil
}

// services are those of this build, served by the controllers.
var services = []csi.PluginCapability_Service_Type{
	csi.PluginCapability_Service_CONTROLLER_SERVICE,
	csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS,
	csi.PluginCapability_Service_GROUP_CONTROLLER_SERVICE,
	csi.PluginCapability_Service_SNAPSHOT_METADATA_SERVICE,
}

// GetPluginCapabilities is the same on every process of a version, whatever it serves.
func (s *Server) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	resp := &csi.GetPluginCapabilitiesResponse{}
	for _, service := range services {
		if slices.Contains(s.cfg.Disabled, service) {
			continue
		}
		resp.Capabilities = append(resp.Capabilities, &csi.PluginCapability{
			Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: service}},
		})
	}
	if !s.cfg.NoExpansion {
		resp.Capabilities = append(resp.Capabilities, onlineExpansion())
	}
	return resp, nil
}

// onlineExpansion: volumes are expanded whether they are in use or not.
func onlineExpansion() *csi.PluginCapability {
	return &csi.PluginCapability{Type: &csi.PluginCapability_VolumeExpansion_{
		VolumeExpansion: &csi.PluginCapability_VolumeExpansion{Type: csi.PluginCapability_VolumeExpansion_ONLINE},
	}}
}

// Probe says whether the process can serve: ready is always set.
func (s *Server) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	err := s.cfg.Ready()
	if errors.Is(err, ErrUnhealthy) {
		return nil, rpcerr.From(status.Error(codes.FailedPrecondition, err.Error()))
	}
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(err == nil)}, nil
}
