package stories

import "strings"

// toldElsewhere are the commands that this story leaves out, by how they begin, and why.
var toldElsewhere = map[string]string{
	"make ":                    "it is how the stories run",
	"kubectl create namespace": "the story install does it",
	"kubectl label namespace":  "the story install does it",
	`ln -s "$PWD/bin/holdfast" /usr/local/bin/kubectl-holdfast`:                    "every story has the plugin so, in a folder of its own",
	"ctr -n k8s.io images import":                                                  "every node gets its images so",
	"kubectl taint nodes $NODE":                                                    "the story failover: the loop does so, and undoes it",
	"kubectl -n holdfast delete pvc data-holdfast-controller-1 --wait=false":       "the story pod-0-lost",
	"kubectl delete pv holdfast-controller-1 --wait=false":                         "the story pod-0-lost",
	"kubectl -n holdfast delete pod holdfast-controller-1":                         "the story pod-0-lost",
	"kubectl wait pv/holdfast-controller-1":                                        "the story pod-0-lost",
	"kubectl holdfast members replace":                                             "the story pod-0-lost",
	"kubectl -n holdfast scale statefulset/holdfast-controller":                    "the story recovered",
	"kubectl -n holdfast wait pod/holdfast-controller-0 pod/holdfast-controller-1": "the story recovered",
	"kubectl apply -f recover.yaml":                                                "the story recovered",
	"kubectl -n holdfast wait pod/recover":                                         "the story recovered",
	"kubectl -n holdfast exec recover":                                             "the story recovered",
	"kubectl -n holdfast delete pod recover":                                       "the story recovered",
	"rm -rf /var/lib/holdfast/controllers/":                                        "the story recovered",
	"kubectl holdfast adopt":                                                       "the story recovered",
	"rm /etc/drbd.conf":                                                            "only hosts with DRBD have the file",
}

// mayRefuse are the commands that are right to fail where nothing is wrong, by how they begin, with what they say then.
var mayRefuse = map[string]string{
	"kubectl -n holdfast logs $CONTROLLER_POD -c holdfast --previous": "previous terminated container",
	"kubectl holdfast certs unrevoke node $NODE":                      "revoked",
	"kubectl holdfast nodes out-of-service $NODE --return":            "out of service",
	"kubectl holdfast volumes at-risk --if-zone $ZONE":                "zone",
	"helm template holdfast":                                          "requires kubeVersion", // of a helm whose build named no version of Kubernetes, as that of the stories
	"kubectl holdfast volumes orphans $VOLUME_ID --yes":               "too young",            // as that of a story is
	"kubectl holdfast doctor":                                         "",
}

// foundIn is the entry of a table with whose key a line begins.
func foundIn(table map[string]string, line string) (string, bool) {
	for begin, value := range table {
		if strings.HasPrefix(line, begin) {
			return value, true
		}
	}
	return "", false
}
