"""Files for monitoring: alert rules for Prometheus and a dashboard for Grafana; `dochistory metrics` prints them."""
