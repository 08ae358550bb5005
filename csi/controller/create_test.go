package controller_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
)

type createReq = csi.CreateVolumeRequest

func withCapacity(required, limit int64) func(*createReq) {
	return func(r *createReq) {
		r.CapacityRange = &csi.CapacityRange{RequiredBytes: required, LimitBytes: limit}
	}
}

func withCapabilities(capabilities ...*csi.VolumeCapability) func(*createReq) {
	return func(r *createReq) { r.VolumeCapabilities = capabilities }
}

func withParameters(pairs ...string) func(*createReq) {
	return func(r *createReq) { r.Parameters = mapOf(pairs...) }
}

func mapOf(pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

func topologyTerm(pairs ...string) *csi.Topology { return &csi.Topology{Segments: mapOf(pairs...)} }

func accessibleFrom(requisite, preferred []*csi.Topology) func(*createReq) {
	return func(r *createReq) {
		r.AccessibilityRequirements = &csi.TopologyRequirement{Requisite: requisite, Preferred: preferred}
	}
}

// TestCreateVolumeArguments has one case per rule about the request alone. Each is
// asked twice, and what is refused leaves no volume behind (CSI-CTRL-CreateVolume-15).
func TestCreateVolumeArguments(t *testing.T) {
	const invalid = codes.InvalidArgument
	hidden := &csi.VolumeCapability_MountVolume{VolumeMountGroup: "staff"}
	for name, tc := range map[string]struct {
		change func(*createReq)
		want   codes.Code
	}{
		"CreateVolume-07: a name is required":                     {func(r *createReq) { r.Name = "" }, invalid},
		"CreateVolume-08: a name of 128 bytes":                    {func(r *createReq) { r.Name = strings.Repeat("n", 128) }, codes.OK},
		"CreateVolume-08: not one of 129":                         {func(r *createReq) { r.Name = strings.Repeat("n", 129) }, invalid},
		"GEN-Size-03: 64 characters of two bytes":                 {func(r *createReq) { r.Name = strings.Repeat("é", 64) }, codes.OK},
		"GEN-Size-03: bytes count, not characters":                {func(r *createReq) { r.Name = strings.Repeat("é", 65) }, invalid},
		"CreateVolume-11: no range gets the default":              {func(r *createReq) { r.CapacityRange = nil }, codes.OK},
		"CapacityRange-01: a range names a bound":                 {withCapacity(0, 0), invalid},
		"CapacityRange-02: required is not negative":              {withCapacity(-1, 0), invalid},
		"CapacityRange-03: limit is not negative":                 {withCapacity(0, -1), invalid},
		"CapacityRange-04: an exact size":                         {withCapacity(gib, gib), codes.OK},
		"CapacityRange-04: none that the unit forbids":            {withCapacity(gib+1, gib+1), codes.OutOfRange},
		"CapacityRange-05: required above limit":                  {withCapacity(2*gib, gib), invalid},
		"CapacityRange-07: not above the limit after rounding":    {withCapacity(gib+1, gib+2), codes.OutOfRange},
		"CapacityRange-08: a limit of 0 is none":                  {withCapacity(3*gib, 0), codes.OK},
		"CreateVolume-39: above the largest":                      {withCapacity(1<<62, 0), codes.OutOfRange},
		"CreateVolume-39: the largest number":                     {withCapacity(1<<63-1, 0), codes.OutOfRange},
		"CreateVolume-39: a limit below the smallest":             {withCapacity(0, 1), codes.OutOfRange},
		"CreateVolume-39: a limit below what xfs needs":           {createChanges(withParameters("fsType", "xfs"), withCapacity(1, 300<<20)), codes.OutOfRange},
		"CreateVolume-13: capabilities are required":              {withCapabilities(), invalid},
		"VolumeCapability-01: an access type is required":         {withCapabilities(&csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: writer}}), invalid},
		"VolumeCapability-02: an access mode is required":         {withCapabilities(&csi.VolumeCapability{AccessType: &csi.VolumeCapability_Block{}}), invalid},
		"VolumeCapability-03: mode UNKNOWN":                       {withCapabilities(mount(0, "")), invalid},
		"VolumeCapability-03: a mode that does not exist":         {withCapabilities(mount(99, "")), invalid},
		"VolumeCapability-04: ext4":                               {withCapabilities(mount(writer, "ext4")), codes.OK},
		"VolumeCapability-04: xfs":                                {withCapabilities(mount(writer, "xfs")), codes.OK},
		"VolumeCapability-04: another filesystem":                 {withCapabilities(mount(writer, "zzz")), invalid},
		"VolumeCapability-05: flags of 4096 bytes":                {withCapabilities(mount(writer, "", slices.Concat(slices.Repeat([]string{"noatime"}, 584), []string{"relatime"})...)), codes.OK},
		"VolumeCapability-05: flags of 4097 bytes":                {withCapabilities(mount(writer, "", slices.Concat(slices.Repeat([]string{"noatime"}, 583), []string{"relatime", "relatime"})...)), invalid},
		"VolumeCapability-06: a mount group is not advertised":    {withCapabilities(&csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: writer}, AccessType: &csi.VolumeCapability_Mount{Mount: hidden}}), invalid},
		"VolumeCapability-09: SINGLE_NODE_READER_ONLY":            {withCapabilities(mount(reader, "")), codes.OK},
		"VolumeCapability-10: MULTI_NODE_READER_ONLY":             {withCapabilities(mount(multiNodeReader, "")), invalid},
		"VolumeCapability-11: MULTI_NODE_SINGLE_WRITER":           {withCapabilities(mount(multiNodeSingleWriter, "")), invalid},
		"VolumeCapability-12: MULTI_NODE_MULTI_WRITER is refused": {withCapabilities(block(multiNodeMultiWriter)), invalid},
		"VolumeCapability-13: SINGLE_NODE_SINGLE_WRITER":          {withCapabilities(mount(singleWriter, "")), codes.OK},
		"VolumeCapability-14: SINGLE_NODE_MULTI_WRITER":           {withCapabilities(block(multiWriter)), codes.OK},
		"VolumeCapability-16: SINGLE_NODE_WRITER":                 {withCapabilities(block(writer)), codes.OK},
		"CreateVolume-14, -41: several that go together":          {withCapabilities(mount(writer, ""), mount(reader, "ext4")), codes.OK},
		"CreateVolume-15: one of them is not served":              {withCapabilities(mount(writer, ""), mount(multiNodeMultiWriter, "")), invalid},
		"CreateVolume-42: mounted and raw exclude each other":     {withCapabilities(mount(writer, ""), block(writer)), invalid},
		"CreateVolume-42: two filesystems too":                    {withCapabilities(mount(writer, "xfs"), mount(writer, "ext4")), invalid},
		"CreateVolume-16: an unknown parameter":                   {withParameters("raid", "6"), invalid},
		"CreateVolume-16: case tells keys apart":                  {withParameters("fsType", "ext4", "FSTYPE", "ext4"), invalid},
		"CreateVolume-16: a filesystem that is not served":        {withParameters("fsType", "btrfs"), invalid},
		"CreateVolume-16: a filesystem that contradicts":          {createChanges(withParameters("fsType", "xfs"), withCapabilities(mount(writer, "ext4"))), invalid},
		"CreateVolume-16: two filesystems in parameters":          {withParameters("fsType", "xfs", "csi.storage.k8s.io/fstype", "ext4"), invalid},
		"CreateVolume-16: Kubernetes' key for a filesystem":       {withParameters("csi.storage.k8s.io/fstype", "xfs"), codes.OK},
		"CreateVolume-16: Kubernetes' names of claims":            {withParameters("csi.storage.k8s.io/pvc/name", "data", "csi.storage.k8s.io/pv/name", "pv-1"), codes.OK},
		"CreateVolume-16: one replica":                            {withParameters("replicas", "1"), codes.OK},
		"CreateVolume-16: two need a second host":                 {withParameters("replicas", "2"), codes.ResourceExhausted},
		"CreateVolume-16: DRBD 8.4 holds two":                     {withParameters("replicas", "3"), invalid},
		"CreateVolume-16: encrypted":                              {withParameters("encrypted", "true"), codes.OK},
		"CreateVolume-16: not encrypted":                          {withParameters("encrypted", "false"), codes.OK},
		"CreateVolume-16: neither":                                {withParameters("encrypted", "yes"), invalid},
		"CreateVolume-16: a protocol is of two replicas":          {withParameters("protocol", "C"), invalid},
		"CreateVolume-16: of one replica it is none either":       {withParameters("replicas", "1", "protocol", "A"), invalid},
		"CreateVolume-16: a protocol that is not served":          {withParameters("replicas", "2", "protocol", "B"), invalid},
		"CreateVolume-16: a number is written in one way":         {withParameters("replicas", "02"), invalid},
		"CreateVolume-16: no replica":                             {withParameters("replicas", "0"), invalid},
		"CreateVolume-16: no number":                              {withParameters("replicas", "one"), invalid},
		"GEN-Field-03: an empty value is not given":               {withParameters("replicas", "", "fsType", "", "protocol", ""), codes.OK},
		"GEN-Size-04: parameters above 4 KiB":                     {withParameters("csi.storage.k8s.io/pvc/name", strings.Repeat("x", 4096)), invalid},
		"GEN-Size-04: parameters of 4 KiB with their keys":        {withParameters("csi.storage.k8s.io/pvc/name", strings.Repeat("x", 4096-27)), codes.OK},
		"CreateVolume-17: secrets are optional":                   {func(r *createReq) { r.Secrets = mapOf("pass-word_1.x", "s") }, codes.OK},
		"GEN-Secrets-01: keys of secrets have a form":             {func(r *createReq) { r.Secrets = mapOf("a b", "s") }, invalid},
		"GEN-Secrets-01: and are not empty":                       {func(r *createReq) { r.Secrets = mapOf("", "s") }, invalid},
		"CreateVolume-19: a source names its type":                {func(r *createReq) { r.VolumeContentSource = &csi.VolumeContentSource{} }, invalid},
		"CreateVolume-20: a snapshot has an id":                   {func(r *createReq) { r.VolumeContentSource = fromSnapshot("") }, invalid},
		"CreateVolume-21: a volume has an id":                     {func(r *createReq) { r.VolumeContentSource = fromVolume("") }, invalid},
		"CreateVolume-32: a volume that is unknown":               {func(r *createReq) { r.VolumeContentSource = fromVolume(unknownID) }, codes.NotFound},
		"CreateVolume-32: a snapshot that is unknown":             {func(r *createReq) { r.VolumeContentSource = fromSnapshot(unknownSnapshot) }, codes.NotFound},
		"CreateVolume-32: a source's id of another form":          {func(r *createReq) { r.VolumeContentSource = fromSnapshot("hs-1") }, codes.NotFound},
		"GEN-Error-12: the form is checked before the source":     {createChanges(withCapacity(-1, 0), func(r *createReq) { r.VolumeContentSource = fromSnapshot("hs-1") }), invalid},
		"EXT-Modify-10: an unknown mutable parameter":             {withMutable("iops", "1"), invalid},
		"EXT-Modify-10: beside a good one":                        {withMutable("iopsLimit", "1", "x", "1"), invalid},
		"EXT-Modify-10: a limit for reading and one for writing":  {withMutable("iopsLimit", "1000/500", "bandwidthLimit", "100Mi/0"), codes.OK},
		"EXT-Modify-10: no number":                                {withMutable("iopsLimit", "many"), invalid},
		"EXT-Modify-10: an empty value":                           {withMutable("iopsLimit", ""), invalid},
		"EXT-Modify-10: a negative number":                        {withMutable("iopsLimit", "-1"), invalid},
		"EXT-Modify-10: three numbers":                            {withMutable("iopsLimit", "1/2/3"), invalid},
		"EXT-Modify-10: operations have no unit":                  {withMutable("iopsLimit", "1Ki"), invalid},
		"EXT-Modify-10: bandwidth above any":                      {withMutable("bandwidthLimit", "9223372036854775807Gi"), invalid},
		"CreateVolume-16: a limit among the parameters":           {withParameters("iopsLimit", "10"), codes.OK},
		"CreateVolume-16: a limit that is none":                   {withParameters("bandwidthLimit", "10Mb"), invalid},
		"Topology-01: a requirement names a topology":             {accessibleFrom(nil, nil), invalid},
		"Topology-08: preferred is among requisite":               {accessibleFrom([]*csi.Topology{topologyTerm("topology.holdfast.storage/zone", "z1")}, []*csi.Topology{topologyTerm("topology.holdfast.storage/zone", "z2")}), invalid},
		"Topology-11: an empty key":                               {accessibleFrom([]*csi.Topology{topologyTerm("", "z1")}, nil), invalid},
		"Topology-11: a key that is a slash":                      {accessibleFrom([]*csi.Topology{topologyTerm("/", "z1")}, nil), invalid},
		"Topology-11: two slashes":                                {accessibleFrom([]*csi.Topology{topologyTerm("a//b", "z1")}, nil), invalid},
		"Topology-11: a hyphen at the end of a key":               {accessibleFrom([]*csi.Topology{topologyTerm("-z", "z1")}, nil), invalid},
		"Topology-11: a key of 64 bytes":                          {accessibleFrom([]*csi.Topology{topologyTerm(strings.Repeat("k", 64), "z1")}, nil), invalid},
		"Topology-12: an upper-case prefix":                       {accessibleFrom([]*csi.Topology{topologyTerm("Com.X/zone", "z1")}, nil), invalid},
		"Topology-12: a prefix of 64 bytes":                       {accessibleFrom([]*csi.Topology{topologyTerm(strings.Repeat("p", 64)+"/zone", "z1")}, nil), invalid},
		"Topology-12: an underscore in a prefix":                  {accessibleFrom([]*csi.Topology{topologyTerm("_x/zone", "z1")}, nil), invalid},
		"Topology-14: keys that differ in case only":              {accessibleFrom([]*csi.Topology{topologyTerm("Zone", "z1", "zone", "z1")}, nil), invalid},
		"Topology-14: a key in another case is the same":          {accessibleFrom([]*csi.Topology{topologyTerm("topology.holdfast.storage/ZONE", "z1")}, nil), codes.OK},
		"Topology-15: a value of 64 bytes":                        {accessibleFrom([]*csi.Topology{topologyTerm("topology.holdfast.storage/zone", strings.Repeat("v", 64))}, nil), invalid},
		"Topology-15: a hyphen at the end of a value":             {accessibleFrom([]*csi.Topology{topologyTerm("topology.holdfast.storage/zone", "-x")}, nil), invalid},
		"Topology-16: an empty value":                             {accessibleFrom([]*csi.Topology{topologyTerm("topology.holdfast.storage/zone", "")}, nil), invalid},
		"Topology-17: a key without a name":                       {accessibleFrom([]*csi.Topology{topologyTerm("example.com/", "z1")}, nil), invalid},
		"Topology-01: a term without segments":                    {accessibleFrom([]*csi.Topology{topologyTerm()}, nil), invalid},
		"Topology-10, CreateVolume-38: nowhere":                   {accessibleFrom([]*csi.Topology{topologyTerm("topology.holdfast.storage/zone", "z9")}, nil), codes.ResourceExhausted},
		"CreateVolume-38: no pool has room":                       {withCapacity(2000*gib, 0), codes.ResourceExhausted},
		"GEN-Error-12: the form is checked before the place":      {createChanges(accessibleFrom([]*csi.Topology{topologyTerm("topology.holdfast.storage/zone", "z9")}, nil), withCapacity(-1, 0)), invalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			for range 2 {
				resp, err := w.CreateVolume(t.Context(), createRequest("v", tc.change))
				requireCode(t, tc.want, err)
				if tc.want != codes.OK {
					require.Empty(t, w.cluster.volumes())
					continue
				}
				require.Len(t, w.cluster.volumes(), 1)
				requested := createRequest("v", tc.change)
				require.GreaterOrEqual(t, resp.GetVolume().GetCapacityBytes(), requested.GetCapacityRange().GetRequiredBytes())
				if limit := requested.GetCapacityRange().GetLimitBytes(); limit > 0 {
					require.LessOrEqual(t, resp.GetVolume().GetCapacityBytes(), limit)
				}
			}
		})
	}
}

func withMutable(pairs ...string) func(*createReq) {
	return func(r *createReq) { r.MutableParameters = mapOf(pairs...) }
}

func createChanges(changes ...func(*createReq)) func(*createReq) {
	return func(r *createReq) {
		for _, change := range changes {
			change(r)
		}
	}
}

func fromSnapshot(id string) *csi.VolumeContentSource {
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: id}}}
}

func fromVolume(id string) *csi.VolumeContentSource {
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: id}}}
}

// CSI-CTRL-CreateVolume-09, -10: all but the banned characters make a name, and a
// name is never a path.
func TestCreateVolumeNames(t *testing.T) {
	w := newEnv(t)
	banned := func(r rune) bool {
		return r <= 0x08 || r == 0x0b || r == 0x0c || r >= 0x0e && r <= 0x1f || r >= 0x7f && r <= 0x9f
	}
	for r := rune(0); r <= 0xa0; r++ {
		want := codes.OK
		if banned(r) {
			want = codes.InvalidArgument
		}
		_, err := w.CreateVolume(t.Context(), createRequest(fmt.Sprintf("a%cb", r)))
		requireCode(t, want, err)
	}
	for _, name := range []string{"../x", "/", ".", "..", ".hidden", "a b", "tab\tnewline\nreturn\r", "🪨", "שלום", "a/b"} {
		require.True(t, fsm.VolumeID(w.create(t, name)).Valid(), name)
	}
}

// CSI-CTRL-CreateVolume-02..06, -28, -30, -33..37, CSI-CTRL-Volume-01..06, -08, -09,
// CSI-CTRL-CapacityRange-06, CSI-GEN-Secrets-05.
func TestCreateVolumeTwice(t *testing.T) {
	base := createChanges(withCapacity(gib, 2*gib), withCapabilities(mount(writer, ""), mount(reader, "")), withParameters("fsType", "ext4", "csi.storage.k8s.io/pvc/name", "one"))
	for name, tc := range map[string]struct {
		change func(*createReq)
		want   codes.Code
	}{
		"-02: the same again is the same volume": {func(*createReq) {}, codes.OK},
		"-05: a range that holds the size":       {withCapacity(gib/2, 3*gib), codes.OK},
		"-05: no range at all":                   {func(r *createReq) { r.CapacityRange = nil }, codes.OK},
		"-06: rotated secrets":                   {func(r *createReq) { r.Secrets = mapOf("key", "other") }, codes.OK},
		"-02: capabilities in another order":     {withCapabilities(mount(reader, ""), mount(writer, "")), codes.OK},
		"-02: the filesystem said outright":      {withCapabilities(mount(writer, "ext4"), mount(reader, "ext4")), codes.OK},
		"-02: another claim's name":              {withParameters("fsType", "ext4", "csi.storage.k8s.io/pvc/name", "two"), codes.OK},
		"-33: a larger one":                      {withCapacity(2*gib, 0), codes.AlreadyExists},
		"-33: a smaller one":                     {withCapacity(0, gib/2), codes.AlreadyExists},
		"-34: block instead of mount":            {withCapabilities(block(writer)), codes.AlreadyExists},
		"-34: another access mode":               {withCapabilities(mount(multiWriter, "")), codes.AlreadyExists},
		"-34: other mount flags":                 {withCapabilities(mount(writer, "", "noatime"), mount(reader, "")), codes.AlreadyExists},
		"-35: another parameter":                 {createChanges(withParameters("fsType", "xfs")), codes.AlreadyExists},
		"-35: one parameter more":                {withParameters("fsType", "ext4", "replicas", "1"), codes.AlreadyExists},
		"-36: another topology":                  {accessibleFrom([]*csi.Topology{topologyTerm("topology.holdfast.storage/zone", "z2")}, nil), codes.AlreadyExists},
		"-36: a topology where it is":            {accessibleFrom([]*csi.Topology{topologyTerm("topology.holdfast.storage/zone", "z2"), topologyTerm("topology.holdfast.storage/zone", "z1")}, nil), codes.OK},
		"-37: a source, where there is none":     {func(r *createReq) { r.VolumeContentSource = fromVolume(unknownID) }, codes.AlreadyExists},
		"-37: nor of a snapshot":                 {func(r *createReq) { r.VolumeContentSource = fromSnapshot(unknownSnapshot) }, codes.AlreadyExists},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, hostIn("n1", "z1"))
			first, err := w.CreateVolume(t.Context(), createRequest("v", base))
			require.NoError(t, err)
			require.True(t, fsm.VolumeID(first.GetVolume().GetVolumeId()).Valid())
			require.Equal(t, gib, first.GetVolume().GetCapacityBytes())
			require.Empty(t, first.GetVolume().GetVolumeContext())
			require.Nil(t, first.GetVolume().GetContentSource())
			require.True(t, proto.Equal(topologyTerm(fsm.TopologyKey, "n1", fsm.ZoneKey, "z1"), first.GetVolume().GetAccessibleTopology()[0]))
			for range 2 {
				again, err := w.CreateVolume(t.Context(), createRequest("v", base, tc.change))
				requireCode(t, tc.want, err)
				if tc.want == codes.OK {
					require.True(t, proto.Equal(first, again))
				}
			}
			require.Len(t, w.cluster.volumes(), 1)
		})
	}
}

// CSI-CTRL-Topology-02, -03, -05, -07, -09, -10, -18, -19, CSI-CTRL-CreateVolume-28.
func TestCreateVolumeTopology(t *testing.T) {
	zone := func(zones ...string) (terms []*csi.Topology) {
		for _, z := range zones {
			terms = append(terms, topologyTerm(fsm.ZoneKey, z))
		}
		return terms
	}
	small := func(id fsm.NodeID, z string, capacity int64) func(*fakeCluster) *fakeHost {
		return func(c *fakeCluster) *fakeHost {
			h := hostIn(id, z)(c)
			h.pool.CapacityBytes, h.pool.OvercommitPercent = capacity, 100
			return h
		}
	}
	hosts := []func(*fakeCluster) *fakeHost{small("n2", "z2", 50*gib), small("n3", "z3", 10*gib), small("n4", "z4", 20*gib), small("n5", "z5", 30*gib)}
	for name, tc := range map[string]struct {
		change func(*createReq)
		want   string
		code   codes.Code
	}{
		"-28: anywhere without a requirement":            {func(*createReq) {}, "n2", codes.OK},
		"-02: where it must be":                          {accessibleFrom(zone("z4"), nil), "n4", codes.OK},
		"-05: in one of several, named twice":            {accessibleFrom(zone("z3", "z4", "z3"), nil), "n4", codes.OK},
		"-07, -18: the first preferred":                  {accessibleFrom(zone("z2", "z3"), zone("z3", "z2")), "n3", codes.OK},
		"-07, -18: else the next":                        {createChanges(accessibleFrom(zone("z2", "z3"), zone("z3", "z2")), withCapacity(15*gib, 0)), "n2", codes.OK},
		"-19: in order from first to last":               {accessibleFrom(zone("z2", "z3", "z4", "z5"), zone("z4", "z2")), "n4", codes.OK},
		"-09: else any requisite":                        {createChanges(accessibleFrom(zone("z2", "z3"), zone("z3")), withCapacity(15*gib, 0)), "n2", codes.OK},
		"preferred alone is no condition":                {createChanges(accessibleFrom(nil, zone("z3")), withCapacity(15*gib, 0)), "n2", codes.OK},
		"-10: none has room":                             {createChanges(accessibleFrom(zone("z3", "z4"), zone("z3")), withCapacity(40*gib, 0)), "", codes.ResourceExhausted},
		"-02: by node, as NodeGetInfo says":              {accessibleFrom([]*csi.Topology{topologyTerm(fsm.TopologyKey, "n5", fsm.ZoneKey, "z5")}, nil), "n5", codes.OK},
		"-10: a node that is in another zone than asked": {accessibleFrom([]*csi.Topology{topologyTerm(fsm.TopologyKey, "n5", fsm.ZoneKey, "z2")}, nil), "", codes.ResourceExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, hosts...)
			resp, err := w.CreateVolume(t.Context(), createRequest("v", tc.change))
			requireCode(t, tc.code, err)
			if tc.code == codes.OK {
				require.Len(t, resp.GetVolume().GetAccessibleTopology(), 1)
				require.Equal(t, tc.want, resp.GetVolume().GetAccessibleTopology()[0].GetSegments()[fsm.TopologyKey])
			}
		})
	}
}
