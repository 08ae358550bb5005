package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// addExamples adds to each command's help how it is called. The flags that choose the cluster are left out, where they are in the
// environment: HOLDFAST_ENDPOINTS, HOLDFAST_CERT, HOLDFAST_KEY and HOLDFAST_CA, or HOLDFAST_DIR.
func addExamples(root *cobra.Command) {
	for _, cmd := range withChildren(root) {
		_, path, _ := strings.Cut(cmd.CommandPath(), " ")
		if lines := examples[path]; len(lines) > 0 {
			cmd.Example = "  holdfast " + strings.Join(lines, "\n  holdfast ")
		}
	}
}

// examples are calls of each command, by its path.
var examples = map[string][]string{
	"":                            {"dev --dir .cache/dev", "status --dir .cache/dev", "doctor --dir .cache/dev"},
	"adopt":                       {"adopt", "adopt --incarnation 2 --yes --wait"},
	"audit":                       {"audit", "audit --bundle incident.tar.gz"},
	"backup":                      {"backup state.hfb", "backup --recipient age1example state.hfb.age"},
	"backup list":                 {"backup list --backup-to /var/backups/holdfast"},
	"backup verify":               {"backup verify state.hfb", "backup verify state.hfb increment.hfb"},
	"bundle":                      {"bundle incident.tar.gz"},
	"ca":                          {"ca make --ca-dir ca --cluster prod"},
	"ca make":                     {"ca make --ca-dir ca --cluster prod"},
	"ca issue":                    {"ca issue --ca-dir ca --role admin --name alice --out certs"},
	"ca renew":                    {"ca renew --ca-dir ca --folder certs/n1 --folder certs/n2", "ca renew --ca-dir ca --folder certs/n1 --within 1440h --yes"},
	"ca rotate":                   {"ca rotate --ca-dir ca --folder certs/n1 --yes", "ca rotate --ca-dir ca --folder certs/n1 --switch --yes", "ca rotate --ca-dir ca --folder certs/n1 --finish --yes"},
	"certs":                       {"certs", "certs --condition abnormal"},
	"certs list":                  {"certs list --role node --sort-by not-after"},
	"certs revoke":                {"certs revoke node n3", "certs revoke admin mallory --reason 'laptop stolen'"},
	"certs unrevoke":              {"certs unrevoke node n3"},
	"completion":                  {"completion bash"},
	"controller":                  {"controller --bootstrap --join c1:9800,c2:9800,c3:9800", "controller --config /etc/holdfast/controller.yaml"},
	"dev":                         {"dev --dir .cache/dev", "dev --dir .cache/dev --controllers 5 --nodes 3"},
	"dev clean":                   {"dev clean --dir .cache/dev"},
	"dev start":                   {"dev start --dir .cache/dev c2"},
	"doctor":                      {"doctor", "doctor --host --role node --pool-dir /var/lib/holdfast/pool"},
	"groups":                      {"groups", "groups --condition degraded", "groups replication --watch"},
	"groups list":                 {"groups list --sort-by name"},
	"groups promote":              {"groups promote database --site east", "groups promote database --site east --yes"},
	"groups demote":               {"groups demote database --site west --yes"},
	"groups resync":               {"groups resync database --site west"},
	"history":                     {"history pvc-7", "history --node n1 --from 1000 --to 2000"},
	"log":                         {"log inspect --data-dir /var/lib/holdfast/controller"},
	"log inspect":                 {"log inspect --data-dir /var/lib/holdfast/controller"},
	"log skip":                    {"log skip --data-dir /var/lib/holdfast/controller --index 1207 --hash 9f86d081 --reason 'bad entry'"},
	"members":                     {"members", "members -o wide", "members --watch"},
	"members add":                 {"members add c4:9800"},
	"members demote":              {"members demote c3"},
	"members list":                {"members list --sort-by -lag"},
	"members promote":             {"members promote c3"},
	"members remove":              {"members remove c3"},
	"members replace":             {"members replace c3"},
	"members transfer":            {"members transfer c2"},
	"node":                        {"node --endpoints c1:9802,c2:9802,c3:9802 --pool-dir /var/lib/holdfast/pool"},
	"nodes":                       {"nodes", "nodes --condition abnormal", "nodes --sort-by free -o wide"},
	"nodes adopt":                 {"nodes adopt n1"},
	"nodes drain":                 {"nodes drain n1"},
	"nodes evict":                 {"nodes evict n1"},
	"nodes fence":                 {"nodes fence 192.0.2.7/32"},
	"nodes fences":                {"nodes fences --condition waits --watch"},
	"nodes list":                  {"nodes list --state unreachable"},
	"nodes lost":                  {"nodes lost n1 --reason 'burnt down'"},
	"nodes reboot-safe":           {"nodes reboot-safe n1", "nodes reboot-safe n1 --claim"},
	"nodes replace":               {"nodes replace n1"},
	"nodes undrain":               {"nodes undrain n1"},
	"nodes unfence":               {"nodes unfence 192.0.2.7/32"},
	"operations":                  {"operations", "operations --condition failing", "operations --watch -o json"},
	"operations cancel":           {"operations cancel op-12"},
	"operations list":             {"operations list --sort-by started --kind delete"},
	"operations retry":            {"operations retry op-12"},
	"operations show":             {"operations show op-12 -o json"},
	"recover":                     {"recover --data-dir /var/lib/holdfast/controller --advertise c1:9800 --without MEMBER-ID"},
	"restore":                     {"restore --backup state.hfb --data-dir /var/lib/holdfast/controller --advertise c1:9800", "restore --backup state.hfb --increment increment.hfb --data-dir /var/lib/holdfast/controller --advertise c1:9800 --yes"},
	"snapshots":                   {"snapshots", "snapshots --condition abnormal", "snapshots --sort-by -size,name"},
	"snapshots groups":            {"snapshots groups --phase freezing,cutting --watch"},
	"snapshots list":              {"snapshots list --source pvc-7"},
	"state":                       {"state", "state --bundle incident.tar.gz --at 1200"},
	"status":                      {"status", "status --watch --interval 1s"},
	"upgrade":                     {"upgrade status"},
	"upgrade finish":              {"upgrade finish", "upgrade finish --yes"},
	"upgrade status":              {"upgrade status"},
	"version":                     {"version"},
	"volumes":                     {"volumes", "volumes pvc-7 -o wide", "volumes --condition degraded --node n1", "volumes --sort-by -size"},
	"volumes at-risk":             {"volumes at-risk --if-node n1", "volumes at-risk --if-zone a --if-member c1"},
	"volumes demote":              {"volumes demote pvc-7 --site west --yes"},
	"volumes kept":                {"volumes kept", "volumes kept pvc-7"},
	"volumes list":                {"volumes list --phase creating,deleting --watch"},
	"volumes manifest":            {"volumes manifest pvc-7"},
	"volumes promote":             {"volumes promote pvc-7 --site east"},
	"volumes replicas":            {"volumes replicas --condition not-up-to-date", "volumes replicas --condition resyncing --watch"},
	"volumes resync":              {"volumes resync pvc-7 --site west"},
	"volumes tolerance":           {"volumes tolerance", "volumes tolerance pvc-7"},
	"volumes replication":         {"volumes replication --condition degraded,error"},
	"volumes restore-header":      {"volumes restore-header pvc-7"},
	"volumes force-primary":       {"volumes force-primary pvc-7 n2 --reason 'n1 is gone'"},
	"volumes kept list":           {"volumes kept list --node n1"},
	"volumes kept remove":         {"volumes kept remove pvc-7 n1"},
	"volumes enable-replication":  {"volumes enable-replication pvc-7 --site west --peer-site east"},
	"volumes disable-replication": {"volumes disable-replication pvc-7 --site west"},
	"groups replication":          {"groups replication --condition degraded,error"},
	"groups enable-replication":   {"groups enable-replication database --site west --peer-site east"},
	"groups disable-replication":  {"groups disable-replication database --site west"},
}
