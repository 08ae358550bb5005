package controller

import (
	csispec "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/admin"
	csicontroller "github.com/holdfast-storage/holdfast/csi/controller"
	"github.com/holdfast-storage/holdfast/csi/server"
)

// controllerService is CSI's controller service on a cluster, for its socket and for operators alike.
func (c *controller) controllerService(on csicontroller.Cluster, disabled []csispec.ControllerServiceCapability_RPC_Type) csispec.ControllerServer {
	return csicontroller.New(on, disabled...).
		WithPoolFacts(c.monitor.Facts().PollFacts).WithMountPolicy(c.mounts.Policy()).WithMaxGroupVolumes(c.groups.maxVolumes)
}

// volumeCalls are the same service's calls in an operator's name.
func (c *controller) volumeCalls() (*admin.VolumeCalls, error) {
	disabled, err := c.disabled.Disabled()
	if err != nil {
		return nil, err
	}
	return &admin.VolumeCalls{
		Cluster: func(actor, site string) admin.CSICluster { return csiCluster{c.cluster, actor, site} },
		Controller: func(on admin.CSICluster) csispec.ControllerServer {
			return c.controllerService(on, disabled.Controller)
		},
		Check: server.CheckMessage,
	}, nil
}
