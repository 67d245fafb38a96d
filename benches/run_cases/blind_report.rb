# report: names that were reported are sought in an array; repaired, in a hash. blind_report.rb [repaired]
require "set"

REPAIRED = !ARGV.empty?

def name_of(number)
  "customer number #{number * 7919 % 12000}"
end

def first_time?(seen, name)
  return false if seen.include?(name)

  seen << name
  true
end

def build_report(count)
  seen = REPAIRED ? Set.new : []
  (0...count).map { |number| name_of(number) }.select { |name| first_time?(seen, name) }
end

report = build_report(16_000)
puts report.size
puts report.map { |name| name.bytes.sum }.sum
