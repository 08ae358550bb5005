package kubelet

import (
	"context"
	"fmt"

	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/holdfast-storage/holdfast/csi/identity"
)

// service answers kubelet.
type service struct {
	registerapi.UnimplementedRegistrationServer
	registration *Registration
}

// GetInfo says what this driver is, and where kubelet finds its CSI socket.
func (s *service) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{
		Type: registerapi.CSIPlugin, Name: identity.Name, Endpoint: s.registration.cfg.Endpoint, SupportedVersions: []string{supportedVersion},
	}, nil
}

// NotifyRegistrationStatus takes note of what became of it. Kubelet tries again by itself after a refusal.
func (s *service) NotifyRegistrationStatus(_ context.Context, status *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	s.registration.outcome(status)
	return &registerapi.RegistrationStatusResponse{}, nil
}

func (r *Registration) outcome(status *registerapi.RegistrationStatus) {
	if status.GetPluginRegistered() {
		r.outcomes.WithLabelValues(registered).Inc()
		r.set(nil)
		return
	}
	reason := status.GetError()
	r.outcomes.WithLabelValues(refused).Inc()
	r.set(fmt.Errorf("kubelet refused to register this driver with the socket %s: %q", r.cfg.Endpoint, reason[:min(len(reason), maxReason)]))
}
