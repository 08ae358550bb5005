# Three controllers of Holdfast, each of which answers Nomad's CSI calls. Each has its data and certificates on its own client, in
# the host volume "holdfast-controller": a folder of root's, mode 0700, with ca.crt, tls.crt and tls.key (0600) of that client's
# controller, as `holdfast ca issue` makes them, in tls (0700). It runs as root, for Nomad's folder of its socket is root's, and
# without any capability. The client's configuration names the folder:
#
#   client { host_volume "holdfast-controller" { path = "/var/lib/holdfast/controller" } }
#
# and its docker plugin has the image, which `docker load` reads from holdfast.tar.
variable "image" {
  type        = string
  description = "the image, as it is named on the clients"
  default     = "localhost/holdfast:latest"
}

variable "datacenters" {
  type        = list(string)
  description = "where controllers run"
  default     = ["*"]
}

variable "controllers" {
  type        = list(string)
  description = "the Raft addresses of all controllers, host:port"
}

variable "bootstrap" {
  type        = bool
  description = "true until the cluster exists: with all controllers named, one that lost its disk makes no second cluster"
  default     = true
}

job "holdfast-controller" {
  type        = "service"
  datacenters = var.datacenters

  update {
    max_parallel     = 1
    min_healthy_time = "10s"
  }

  group "controller" {
    count = length(var.controllers)

    constraint {
      distinct_hosts = true
    }

    network {
      mode = "host"
      port "raft" { static = 9800 }
      port "metrics" { static = 9801 }
      port "api" { static = 9802 }
    }

    volume "data" {
      type   = "host"
      source = "holdfast-controller"
    }

    task "controller" {
      driver       = "docker"
      user         = "0:0"
      kill_timeout = "30s"

      config {
        image           = var.image
        network_mode    = "host"
        readonly_rootfs = true
        cap_drop        = ["all"]
        args = concat([
          "controller",
          "--csi-endpoint=unix:///csi/csi.sock",
          "--data-dir=/data/raft",
          "--bootstrap-marker=/data/founded",
          "--cert=/data/tls/tls.crt",
          "--key=/data/tls/tls.key",
          "--ca=/data/tls/ca.crt",
          "--raft-listen=$${NOMAD_ADDR_raft}",
          "--api-listen=$${NOMAD_ADDR_api}",
          "--join=${join(",", var.controllers)}",
        ], var.bootstrap ? ["--bootstrap"] : [])
      }

      volume_mount {
        volume      = "data"
        destination = "/data"
      }

      csi_plugin {
        id             = "csi.holdfast.storage"
        type           = "controller"
        mount_dir      = "/csi"
        health_timeout = "60s"
      }

      resources {
        cpu    = 500
        memory = 512
      }
    }
  }
}
