{{- /* Combinations that render, but would not run. Each says in one sentence what to change. */ -}}
{{- define "holdfast.check" -}}
{{- $c := .Values.controller -}}{{- $n := .Values.node -}}
{{- if and $c.nodes (ne (len $c.nodes) (int $c.replicas)) -}}
{{- fail (printf "controller.nodes names %d nodes for %d controllers: name one for each, or none." (len $c.nodes) (int $c.replicas)) -}}
{{- end -}}
{{- if ne (len (uniq $c.nodes)) (len $c.nodes) -}}
{{- fail "controller.nodes names a node twice: two controllers are never on one node." -}}
{{- end -}}
{{- if and (eq $c.storage.type "class") (not $c.storage.className) -}}
{{- fail "controller.storage.type is class: name the StorageClass in controller.storage.className." -}}
{{- end -}}
{{- if and (eq $c.storage.type "class") $c.nodes -}}
{{- fail "controller.nodes are for controller.storage.type hostPath: with a class its volumes say where controllers run." -}}
{{- end -}}
{{- if and (eq $c.storage.type "class") (hasKey .Values.storageClasses $c.storage.className) -}}
{{- fail (printf "controller.storage.className %s is a class of Holdfast's own: controllers cannot keep their log on volumes that they serve." $c.storage.className) -}}
{{- end -}}
{{- if and (eq .Values.pki.mode "certManager") (not .Values.pki.certManager.issuerName) -}}
{{- fail "pki.mode is certManager: name the issuer in pki.certManager.issuerName." -}}
{{- end -}}
{{- if and (not $n.pools.dir) (not $n.pools.lvm) -}}
{{- fail "node.pools has neither dir nor lvm: a storage host needs a pool." -}}
{{- end -}}
{{- if and $n.replication.enabled (eq $n.mode "pod") (eq (include "holdfast.nodeHostPID" .) "false") -}}
{{- fail "node.replication.enabled in mode pod needs node.hostPID: replicas are checked against the host's own drbdadm, seen through its first process." -}}
{{- end -}}
{{- if and .Values.zoneFromNode (semverCompare "<1.35.0-0" .Capabilities.KubeVersion.Version) -}}
{{- fail "zoneFromNode needs Kubernetes 1.35, which gives a pod the zone of its node: set node.topologyLabels, or upgrade." -}}
{{- end -}}
{{- if and .Values.zoneFromNode (hasKey $n.topologyLabels "topology.holdfast.storage/zone") -}}
{{- fail "node.topologyLabels has topology.holdfast.storage/zone, and zoneFromNode sets it too: keep one." -}}
{{- end -}}
{{- if hasKey $n.topologyLabels "topology.holdfast.storage/node" -}}
{{- fail "node.topologyLabels has topology.holdfast.storage/node, which is each host's name." -}}
{{- end -}}
{{- if and .Values.networkPolicy.enabled (not .Values.networkPolicy.nodeCIDRs) -}}
{{- fail "networkPolicy.enabled needs networkPolicy.nodeCIDRs: the storage hosts' pods are in the hosts' network, where no selector finds them." -}}
{{- end -}}
{{- if and .Values.snapshotMetadata.enabled (not .Values.snapshotMetadata.tlsSecretName) -}}
{{- fail "snapshotMetadata.enabled needs snapshotMetadata.tlsSecretName: clients trust its address by that certificate." -}}
{{- end -}}
{{- if and .Values.snapshotMetadata.enabled (not .Values.kube.enabled) (not .Values.snapshotMetadata.caCert) -}}
{{- fail "snapshotMetadata.enabled without kube.enabled needs snapshotMetadata.caCert: nobody else tells clients the CA of its address." -}}
{{- end -}}
{{- if and .Values.snapshotMetadata.enabled (not (include "holdfast.snapshots" .)) -}}
{{- fail "snapshotMetadata.enabled needs snapshots: set snapshots.enabled, where the cluster has their CRDs." -}}
{{- end -}}
{{- if and (eq (toString .Values.snapshots.groups) "true") (not (include "holdfast.snapshots" .)) -}}
{{- fail "snapshots.groups is true without snapshots: set snapshots.enabled too." -}}
{{- end -}}
{{- if and $c.backup.endpoint (not $c.backup.to) -}}
{{- fail "controller.backup.endpoint is set, but controller.backup.to says of no place for backups." -}}
{{- end -}}
{{- $defaults := list -}}
{{- range $name, $class := .Values.storageClasses -}}{{- if and $class.enabled $class.default -}}{{- $defaults = append $defaults $name -}}{{- end -}}{{- end -}}
{{- if gt (len $defaults) 1 -}}
{{- fail (printf "storageClasses %s are all the default: a claim without a class gets one." (join ", " $defaults)) -}}
{{- end -}}
{{- end -}}
