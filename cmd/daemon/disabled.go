package daemon

import (
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/spf13/pflag"

	addons "github.com/holdfast-storage/holdfast/addons/identity"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

// DisableFlags are capabilities that are disabled by configuration: they are not advertised, and their
// RPCs answer UNIMPLEMENTED. The operator must start all processes of a cluster with the same ones,
// because COs may call any of them.
type DisableFlags struct{ names []string }

// Add adds the flag.
func (o *DisableFlags) Add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&o.names, "disable-capability", nil, "CSI capability or service that is not served nor advertised, by its `NAME` in the\n"+
		"specification, such as EXPAND_VOLUME or SNAPSHOT_METADATA_SERVICE; repeatable, and to be the same on all controllers and nodes")
}

// Disabled are the disabled capabilities, by service.
type Disabled struct {
	Controller []csi.ControllerServiceCapability_RPC_Type
	Group      []csi.GroupControllerServiceCapability_RPC_Type
	Node       []csi.NodeServiceCapability_RPC_Type
	Services   []csi.PluginCapability_Service_Type
	// Addons are capabilities of CSI-Addons, by their names.
	Addons []string
}

// requiredCapabilities cannot be disabled: without them no volume can be used.
var requiredCapabilities = []string{"UNKNOWN", "CREATE_DELETE_VOLUME", "PUBLISH_UNPUBLISH_VOLUME", "STAGE_UNSTAGE_VOLUME", "CONTROLLER_SERVICE", "VOLUME_ACCESSIBILITY_CONSTRAINTS"}

// addonsCapabilities are those of CSI-Addons that can be disabled.
var addonsCapabilities = []string{
	"NETWORK_FENCE", "GET_CLIENTS_TO_FENCE", "OFFLINE", "ONLINE", "VOLUME_GROUP", "MODIFY_VOLUME_GROUP", "GET_VOLUME_GROUP", "LIST_VOLUME_GROUPS",
	"ENCRYPTIONKEYROTATION", "VOLUME_REPLICATION",
}

// Disabled reads the names. One that names capabilities of several services means all of them.
func (o *DisableFlags) Disabled() (Disabled, error) {
	var disabled Disabled
	for _, name := range o.names {
		name = strings.ToUpper(strings.TrimSpace(name))
		if slices.Contains(requiredCapabilities, name) || !disabled.add(name) {
			return disabled, exit.Usagef("--disable-capability %q is no capability that can be turned off", name)
		}
	}
	return disabled, nil
}

func (o *Disabled) add(name string) bool {
	controller, inController := csi.ControllerServiceCapability_RPC_Type_value[name]
	group, inGroup := csi.GroupControllerServiceCapability_RPC_Type_value[name]
	node, inNode := csi.NodeServiceCapability_RPC_Type_value[name]
	service, inServices := csi.PluginCapability_Service_Type_value[name]
	if inController {
		o.Controller = append(o.Controller, csi.ControllerServiceCapability_RPC_Type(controller))
	}
	if inNode {
		o.Node = append(o.Node, csi.NodeServiceCapability_RPC_Type(node))
	}
	if inServices {
		o.Services = append(o.Services, csi.PluginCapability_Service_Type(service))
	}
	if inGroup {
		o.Group = append(o.Group, csi.GroupControllerServiceCapability_RPC_Type(group))
		o.Services = append(o.Services, csi.PluginCapability_Service_GROUP_CONTROLLER_SERVICE)
	}
	inAddons := slices.Contains(addonsCapabilities, name)
	if inAddons {
		o.Addons = append(o.Addons, name)
	}
	return inController || inGroup || inNode || inServices || inAddons
}

// Enabled are the capabilities of CSI-Addons that are not disabled.
func (o *Disabled) Enabled(capabilities ...*identity.Capability) []*identity.Capability {
	return slices.DeleteFunc(capabilities, func(c *identity.Capability) bool { return slices.Contains(o.Addons, addons.Name(c)) })
}

// HasService tells whether a whole service is disabled.
func (o *Disabled) HasService(s csi.PluginCapability_Service_Type) bool {
	return slices.Contains(o.Services, s)
}

// HasExpansion tells whether expanding volumes is disabled.
func (o *Disabled) HasExpansion() bool {
	return slices.Contains(o.Controller, csi.ControllerServiceCapability_RPC_EXPAND_VOLUME)
}
